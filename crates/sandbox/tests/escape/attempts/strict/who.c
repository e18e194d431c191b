// tries: to learn which user it is
// inside strict: EPERM
// outside: learnt
#include "attempt.h"
int main(void) { return said(syscall(SYS_getuid), "learnt"); }
