# tries: to give a masked file another name
# inside: refused
# outside: told
{ ln .env copy; ln -L innocent.txt copy2; cat copy copy2; } 2>/dev/null | grep -q '^SECRET=' && echo told || echo refused
