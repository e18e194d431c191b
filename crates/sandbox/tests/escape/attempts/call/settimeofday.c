// tries: to set the clock back; no time and no zone set nothing
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_settimeofday, 0, 0); }
int main(void) { return in_child(attempt, "done"); }
