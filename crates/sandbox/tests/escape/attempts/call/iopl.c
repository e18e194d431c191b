// tries: to reach ports of the machine
// inside: EPERM
// outside root: done
// needs: /dev/port
#include "attempt.h"
static long attempt(void) { return syscall(SYS_iopl, 3); }
int main(void) { return in_child(attempt, "done"); }
