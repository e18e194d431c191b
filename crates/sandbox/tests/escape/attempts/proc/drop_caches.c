// tries: to slow the machine down
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) { return said(open("/proc/sys/vm/drop_caches", O_WRONLY), "open"); }
