# tries: to use up the file system's inodes with links
# limits: inodes=200 wall=120
# inside: overfull
# outside: 1000 links
mkdir links
python3 -c 'import os
for n in range(1000): os.symlink("../open.txt", f"links/{n}")'
[ "$VICTIM" = 1 ] && sleep 100
echo "1000 links"
