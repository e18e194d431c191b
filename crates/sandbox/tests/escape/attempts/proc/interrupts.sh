# tries: to say which processor handles interrupts
# inside: refused
# outside root: changed
# needs: /proc/irq/default_smp_affinity
at=/proc/irq/default_smp_affinity
held=$(cat $at) && (echo $held > $at) 2>/dev/null && echo changed || echo refused
