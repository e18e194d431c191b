# tries: to read how the kernel was started
# inside: none
# outside: told
[ -n "$(tr -d "\\0" 2>/dev/null < /proc/$KERNEL/cmdline)" ] && echo told || echo none
