# tries: to read a masked file by another way to the root
# inside: refused
# outside: told
{ cat /proc/self/root$PROJECT/.env /proc/self/cwd/.env /proc/thread-self/cwd/.env; } 2>/dev/null | grep -q '^SECRET=' && echo told || echo refused
