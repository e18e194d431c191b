# tries: to fill the kernel's memory with output
# limits: output=1k
# inside: much
# outside: all of it
[ $VICTIM = 1 ] && head -c 20000000 /dev/zero || { head -c 20000000 /dev/zero | wc -c | grep -q 20000000 && echo all of it; }
