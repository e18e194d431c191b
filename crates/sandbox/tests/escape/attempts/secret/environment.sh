# tries: to find the kernel's secrets in its own environment
# inside: none
# outside: found
env | grep -q ESCAPE_SECRET && echo found || echo none
