# tries: to find the private keys of the host's services
# inside: none
# outside: there
# needs: /etc/ssl/private
[ -e /etc/ssl/private ] && echo there || echo none
