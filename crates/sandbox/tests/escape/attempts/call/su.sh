# tries: the host's own setuid programs
# inside: nothing gained
# outside root: 0
for program in /usr/bin/su /bin/su; do
    [ -u $program ] && won=$(echo | $program root -c 'id -u' 2>/dev/null) && [ "$won" = 0 ] && echo 0 && exit
done
echo nothing gained
