// tries: to exchange a masked file with one of its own
// inside: EBUSY
// outside: exchanged
#include "attempt.h"
int main(void) { return said(renameat2(AT_FDCWD, ".env", AT_FDCWD, "open.txt", 2), "exchanged"); }
