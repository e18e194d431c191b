# tries: to find devices that are more than the harmless ones
# inside: fd full null ptmx pts random shm stderr stdin stdout tty urandom zero
# inside podman: fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero
# outside: more
found=$(echo $(ls /dev))
case "$found" in
"fd full null ptmx pts random shm stderr stdin stdout tty urandom zero") echo "$found" ;;
# Message queues of its own ipc namespace.
"fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero") echo "$found" ;;
*) echo more ;;
esac
