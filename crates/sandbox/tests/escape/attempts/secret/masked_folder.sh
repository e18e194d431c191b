# tries: to read a file in a masked folder
# inside: refused
# outside: told
{ cat vault/token vault/*; } 2>/dev/null | grep -q '^SECRET=' && echo told || echo refused
