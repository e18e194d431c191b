// tries: to become another user
// inside: EPERM
// outside namespace: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_setresuid, 0, 0, 0); }
int main(void) { return in_child(attempt, "done"); }
