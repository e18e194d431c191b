# tries: to leave something in a folder of the room that others would see
# inside: 0 written
# outside namespace: 4 written
[ $VICTIM = 1 ] || { for at in /run /etc /dev /usr; do mount -t tmpfs x $at; done; }
for at in /run /etc /dev /usr; do (echo x > $at/skep-escape) 2>/dev/null && n=$((n + 1)); done
echo $((n)) written
