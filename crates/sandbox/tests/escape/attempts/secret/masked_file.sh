# tries: to read a masked file
# inside: refused
# outside: told
{ cat .env; } 2>/dev/null | grep -q '^SECRET=' && echo told || echo refused
