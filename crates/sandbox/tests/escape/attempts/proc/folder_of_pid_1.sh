# tries: to go where the process that closed the room stands
# inside: none
# outside: there
cd /proc/$VICTIM/cwd 2>/dev/null && echo there || echo none
