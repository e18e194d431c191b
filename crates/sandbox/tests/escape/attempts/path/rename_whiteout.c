// tries: to leave the overlay's mark of a deleted file by renaming
// inside: EINVAL
// outside: left
#include "attempt.h"
int main(void) { return said(renameat2(AT_FDCWD, "open.txt", AT_FDCWD, "moved", 4), "left"); }
