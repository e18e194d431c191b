// tries: to make a device node for the disk
// inside: EACCES
// outside root: made
#include "attempt.h"
int main(void) { return said(mknod("sub/disk", S_IFBLK | 0666, 8 << 8), "made"); }
