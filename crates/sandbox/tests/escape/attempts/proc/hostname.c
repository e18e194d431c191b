// tries: to rename the machine by file
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) { return said(open("/proc/sys/kernel/hostname", O_WRONLY), "open"); }
