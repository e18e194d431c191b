# tries: to use up the file system's inodes with folders in folders
# limits: inodes=200 wall=120
# inside: overfull
# outside: 400 folders
n=0
while [ $n -lt 400 ]; do mkdir d && cd d || exit 1; n=$((n + 1)); done
[ "$VICTIM" = 1 ] && sleep 100
echo "400 folders"
