// tries: to read the memory of the machine
// inside: EACCES
// outside root: open
// needs: /proc/kcore
#include "attempt.h"
int main(void) { return said(open("/proc/kcore", O_RDONLY), "open"); }
