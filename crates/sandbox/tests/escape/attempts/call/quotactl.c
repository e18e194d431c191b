// tries: to change quotas
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_quotactl, 0x800001 << 8, 0, 0, 0); }
int main(void) { return in_child(attempt, "done"); }
