# tries: to remove the mask with the file, and find what lies beneath
# inside: refused
# outside: told
[ $VICTIM = 1 ] || exec sh -c 'grep -qh ^SECRET= .env && echo told'
{ rm -rf .env keys vault; cat .env keys/server.pem vault/token; } 2>/dev/null | grep -q '^SECRET=' && echo told || echo refused
