# Names of tasks, reviews, grants, brains and models; everything else as above.
_skep_names() {
    local -a names open
    names=(${(f)"$(${~words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#names} )); then
        [[ "$words[CURRENT]" == --*=* ]] && compset -P '*='
        # Behind a colon something follows, and no blank.
        open=(${(M)names:#*:}) names=(${names:#*:})
        compadd -V skep -a names
        compadd -V skep -S '' -a open
    else
        _skep "$@"
    fi
}

compdef _skep_names skep
# Loaded by the first key: this file is the body of the function that was asked.
if [ "$funcstack[1]" = "_skep" ]; then
    _skep_names "$@"
fi
