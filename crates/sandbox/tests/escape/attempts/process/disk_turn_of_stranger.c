// tries: to put a process of the host last in the queue for the disk
// inside: ESRCH
// outside: last
#include "attempt.h"
int main(void) { return said(syscall(SYS_ioprio_set, 1, stranger(), 3 << 13), "last"); }
