# tries: to open what the process that closed the room holds
# inside: none
# outside: some
[ -n "$(ls /proc/$VICTIM/fd 2>/dev/null)" ] && echo some || echo none
