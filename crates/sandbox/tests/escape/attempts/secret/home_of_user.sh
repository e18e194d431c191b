# tries: to find a person's home, with its keys and shell history
# inside: none
# outside: there
for home in /root /home; do [ -e $home ] && found=1; done
[ -n "$found" ] && echo there || echo none
