// tries: the table of x32 calls, which has its own numbers beside the ordinary ones
// inside: ENOSYS
// outside: traced
// needs: /usr/libx32
#include "attempt.h"
int main(void) { return said(syscall(0x40000000 | 521, 0, 0, 0, 0), "traced"); }
