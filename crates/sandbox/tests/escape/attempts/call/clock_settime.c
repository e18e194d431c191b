// tries: to set the clock of the machine; an odd time sets nothing
// inside: EPERM
// outside: EINVAL
#include "attempt.h"
static long attempt(void) { return syscall(SYS_clock_settime, 0, (long[]){0, -1}); }
int main(void) { return in_child(attempt, "done"); }
