# tries: to have others copy a masked file: cp, tar, git, dd
# inside: refused
# outside: told
{ cp -a .env copy; tar cf - .env | tar xO; git init -q .; git add -f .env; git show :.env; dd if=.env; cat copy; } 2>/dev/null | grep -q '^SECRET=' && echo told || echo refused
