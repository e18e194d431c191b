# tries: to move a masked file or its folder away from under the mask
# inside: refused
# outside: told
{ mv .env copy; mv keys other; mv vault free; cat copy other/server.pem free/token; } 2>/dev/null | grep -q '^SECRET=' && echo told || echo refused
