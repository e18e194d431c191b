# tries: to find the host's passwords and its users
# inside: none
# outside: there
[ -e /etc/shadow ] || [ -e /etc/sudoers ] || [ "$(wc -l < /etc/passwd)" -gt 3 ] && echo there || echo none
