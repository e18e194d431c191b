// tries: memory that the kernel itself cannot see
// inside: ENOSYS
// outside: hidden
#include "attempt.h"
int main(void) { return said(syscall(447, 0), "hidden"); }
