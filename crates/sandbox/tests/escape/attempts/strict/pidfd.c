// tries: to hold on to another process
// inside strict: EPERM
// outside: held
#include "attempt.h"
int main(void) { return said(syscall(SYS_pidfd_open, getppid(), 0), "held"); }
