# tries: to leave something for others in the folders that belong to everybody
# inside: 2 written
# inside podman: 2 written
# outside: 3 written
for at in /dev/shm /tmp /var/tmp; do (echo x > $at/$SHARED) 2>/dev/null && n=$((n + 1)); done
echo $((n)) written
