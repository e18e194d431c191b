# tries: to find what others have left in the folders that belong to everybody
# inside: none
# outside: 3 told
for at in /dev/shm /tmp /var/tmp; do [ -s $at/$SHARED ] && n=$((n + 1)); done
[ -n "$n" ] && echo $n told || echo none
