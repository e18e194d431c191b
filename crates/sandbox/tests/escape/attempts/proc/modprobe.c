// tries: to name the program that the host runs as root to load modules
// inside: EACCES
// outside root: open
// needs: /proc/sys/kernel/modprobe
#include "attempt.h"
int main(void) { return said(open("/proc/sys/kernel/modprobe", O_WRONLY), "open"); }
