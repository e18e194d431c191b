// tries: to reach one port of the machine
// inside: EPERM
// outside root: done
// needs: /dev/port
#include "attempt.h"
static long attempt(void) { return syscall(SYS_ioperm, 0x80, 1, 1); }
int main(void) { return in_child(attempt, "done"); }
