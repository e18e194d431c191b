// tries: to hold the kernel up in the middle of a copy
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_userfaultfd, 1); }
int main(void) { return in_child(attempt, "done"); }
