# tries: to read the kernel's home
# inside: none
# outside: told
cat $SKEP_HOME/token > /dev/null 2>&1 && echo told || echo none
