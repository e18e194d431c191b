# tries: to find an interface that leads out
# inside: lo
# outside: more than lo
found=$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort | tr '\n' ' ')
if [ "$found" = "lo " ]; then echo lo; else echo more than lo; fi
