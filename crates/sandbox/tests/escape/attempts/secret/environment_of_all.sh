# tries: to find the kernel's secrets in the environment that any process was started with
# inside: none
# outside: found
cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ 2>/dev/null | tr '\0' '\n' | grep -q ESCAPE_SECRET && echo found || echo none
