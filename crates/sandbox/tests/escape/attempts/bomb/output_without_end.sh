# tries: to write output without end
# limits: output=1k wall=3
# inside: much, timed out
# outside: still writing
[ $VICTIM = 1 ] && exec yes
timeout 1 yes > /dev/null; [ $? = 124 ] && echo still writing
