# tries: to stay for ever, deaf to signals
# limits: wall=1
# inside: timed out
# outside: still there
trap '' TERM HUP INT QUIT
[ $VICTIM = 1 ] && { setsid sleep 1000 & sleep 1000; }
sleep 1.2; echo still there
