
# Names of tasks, reviews, grants, brains and models; everything else as above.
_skep_names() {
    # The shell splits at colons and equals signs: what stands together is one word.
    local -a words=()
    local i rest="${COMP_LINE:0:COMP_POINT}"
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i > 0)) && [[ "$rest" != [[:space:]]* ]]; then
            words[-1]+="${COMP_WORDS[i]}"
        else
            words+=("${COMP_WORDS[i]}")
        fi
        rest="${rest#"${rest%%[![:space:]]*}"}"
        rest="${rest#"${COMP_WORDS[i]}"}"
    done
    local names
    names=$("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
    if [[ -z "$names" ]]; then
        _skep "$@"
        return
    fi
    local IFS=$'\n'
    COMPREPLY=($names)
    # Only what follows the last sign is replaced.
    local typed="${words[-1]}" last="${COMP_WORDS[COMP_CWORD]}"
    [[ "$typed" == --*=* ]] && typed="${typed#*=}"
    [[ "$last" == [:=] ]] && last=""
    local before="${typed%"$last"}"
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *: ]] && compopt -o nospace
}
complete -F _skep_names -o nosort -o bashdefault -o default skep
