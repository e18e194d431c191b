// tries: to read the kernel's messages, which name addresses
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) { return said(open("/proc/kmsg", O_RDONLY | O_NONBLOCK), "open"); }
