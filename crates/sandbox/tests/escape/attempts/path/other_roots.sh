# tries: to find what a host keeps beside its programs
# inside: none
# outside root: some
for at in /root /home /srv /mnt /media /boot /var/lib /var/log /var/spool /var/cache /run/systemd /run/user; do
    [ -n "$(ls -A $at 2>/dev/null)" ] && found=some
done
echo ${found:-none}
