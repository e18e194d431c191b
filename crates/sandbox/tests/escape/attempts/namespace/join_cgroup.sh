# tries: to leave its cgroup or to find a release_agent to set
# inside: no cgroup in sight
# outside root: found
for at in /sys/fs/cgroup /cgroup; do
    if [ -d $at ]; then find $at -maxdepth 3 -name cgroup.procs | head -1 | sed 's/.*/found/'; exit; fi
done
echo no cgroup in sight
