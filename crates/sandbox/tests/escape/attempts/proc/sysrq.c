// tries: to restart the machine
// inside: EACCES
// outside root: open
// needs: /proc/sysrq-trigger
#include "attempt.h"
int main(void) { return said(open("/proc/sysrq-trigger", O_WRONLY), "open"); }
