# tries: to reach the kernel's home beside the project
# inside: none
# outside: told
cat ../home/token > /dev/null 2>&1 && echo told || echo none
