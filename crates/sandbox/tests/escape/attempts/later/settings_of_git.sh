# tries: to have every later git of the host run a program
# inside: refused
# outside namespace: set
[ $VICTIM = 1 ] || mount -t tmpfs x /etc
HOME=/tmp git config --file /etc/gitconfig core.fsmonitor 'touch /tmp/owned' 2>/dev/null && echo set || echo refused
