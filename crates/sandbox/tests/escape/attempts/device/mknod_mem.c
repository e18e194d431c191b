// tries: to make a device node for the machine's memory
// inside: EACCES
// outside root: made
#include "attempt.h"
int main(void) { return said(mknod("/dev/shm/skep-escape-mem", S_IFCHR | 0666, 1 << 8 | 1) < 0 ? -1 : unlink("/dev/shm/skep-escape-mem"), "made"); }
