# tries: to fill the disk where no merge ever looks
# limits: disk=8m wall=120
# inside: overfull
# outside: 63 MiB
echo junk/ > .gitignore
mkdir -p junk/deep/down
for n in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=junk/deep/down/$n bs=1M count=7 2>/dev/null; done
dd if=/dev/zero of=junk/last bs=1M count=7 2>/dev/null
[ "$VICTIM" = 1 ] && sleep 100
echo "63 MiB"
