# tries: to have programs that copy whole trees take masked files along
# inside: refused
# outside: told
{ tar cf - . ; cp -r --reflink=auto . /tmp/copy.$$ && cat /tmp/copy.$$/keys/* /tmp/copy.$$/.env; find . -type f | xargs cat; python3 -c 'import shutil
shutil.copytree(".", "/tmp/tree", symlinks=True)' && cat /tmp/tree/.netrc; rm -rf /tmp/copy.$$ /tmp/tree; } 2>/dev/null | grep -aq 'SECRET=[c]' && echo told || echo refused
