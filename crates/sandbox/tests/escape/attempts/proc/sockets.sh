# tries: to list the sockets of the host
# inside: none
# outside: 2 told
grep -q "$ABSTRACT" /proc/net/unix && n=1
grep -q ":$(printf %04X $PORT) " /proc/net/tcp 2>/dev/null && n=$((n + 1))
[ -n "$n" ] && echo $n told || echo none
