# tries: to read a masked file by a link that has an innocent name
# inside: refused
# outside: told
{ cat innocent.txt; } 2>/dev/null | grep -q '^SECRET=' && echo told || echo refused
