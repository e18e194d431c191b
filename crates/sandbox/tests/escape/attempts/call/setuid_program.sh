# tries: to become root by a program with the setuid bit
# inside root: 64800
# inside user: 64999
# outside root: 0
cp /usr/bin/id sub/id && chown 0 sub/id 2>/dev/null; chmod 4755 sub/id && setpriv --reuid 64800 --clear-groups sub/id -u 2>/dev/null || sub/id -u
