# tries: to reach the host by a link that it makes in the project
# inside: none
# outside: told
ln -s $SKEP_HOME/token out; ln -s ../home sideways; cat out sideways/token > /dev/null 2>&1 && echo told || echo none
