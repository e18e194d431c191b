// tries: to drop groups that deny it something
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_setgroups, 0, 0); }
int main(void) { return in_child(attempt, "done"); }
