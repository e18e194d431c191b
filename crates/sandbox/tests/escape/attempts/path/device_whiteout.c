// tries: to forge the overlay's mark of a deleted file
// inside: EACCES
// outside: made
#include "attempt.h"
int main(void) { return said(mknod("sub/whiteout", S_IFCHR, 0), "made"); }
