# tries: to find devices that are more than the harmless ones
# inside: fd full null ptmx pts random shm stderr stdin stdout tty urandom zero
# outside: more
found=$(echo $(ls /dev))
if [ "$found" = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero" ]; then echo "$found"; else echo more; fi
