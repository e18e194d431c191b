// tries: to name a program that the host runs as root when something crashes
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) { return said(open("/proc/sys/kernel/core_pattern", O_WRONLY), "open"); }
