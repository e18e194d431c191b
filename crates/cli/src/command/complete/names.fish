
# Names of tasks, reviews, grants, brains and models.
function __skep_names
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete $words[2..] 2>/dev/null
end
complete -c skep -n 'test (count (__skep_names)) -gt 0' -f -k -a '(__skep_names)'
