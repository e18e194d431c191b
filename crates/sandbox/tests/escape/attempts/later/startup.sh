# tries: to write what the host runs later: at logins, by the clock, by the loader, by interpreters, before every program
# inside: 0 written
# outside namespace: 10 written
set -- /etc/ld.so.preload /etc/profile.d/x.sh /etc/cron.d/x /etc/sudoers.d/x /etc/systemd/system/x.service /etc/environment \
    /usr/local/bin/ls /usr/lib/python3/dist-packages/x.pth /var/spool/cron/crontabs/root /root/.ssh/authorized_keys
[ $VICTIM = 1 ] || for at in /etc /usr/local /usr/lib/python3 /var /root; do mount -t tmpfs x $at; done
for file; do
    { mkdir -p "${file%/*}" && echo x > "$file"; } 2>/dev/null && n=$((n + 1))
done
echo $((n)) written
