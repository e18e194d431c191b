# tries: to read the environment of the kernel by its number
# inside: none
# outside: found
tr '\0' '\n' < /proc/$KERNEL/environ 2>/dev/null | grep -q ESCAPE_SECRET && echo found || echo none
