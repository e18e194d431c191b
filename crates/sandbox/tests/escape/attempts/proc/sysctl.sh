# tries: to change a setting of the kernel
# inside: sh: cannot create /proc/sys/fs/nr_open: Permission denied
# inside podman: sh: cannot create /proc/sys/fs/nr_open: Read-only file system
# outside root: changed
{ cat /proc/sys/fs/nr_open > /tmp/nr_open.$$ && cat /tmp/nr_open.$$ > /proc/sys/fs/nr_open && echo changed; } 2>&1 | sed 's/.*cannot/sh: cannot/'
rm -f /tmp/nr_open.$$
