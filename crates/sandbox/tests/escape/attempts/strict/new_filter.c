// tries: to load a filter of its own
// inside strict: EPERM
// outside: EFAULT
#include "attempt.h"
int main(void) { return said(syscall(SYS_seccomp, 1, 0, 0), "EFAULT"); }
