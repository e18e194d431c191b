# tries: to find the host's processes in /proc
# inside: none
# outside: there
[ -e /proc/$STRANGER/status ] && echo there || echo none
