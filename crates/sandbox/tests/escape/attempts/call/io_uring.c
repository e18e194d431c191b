// tries: a ring by which calls pass the filter unseen
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_io_uring_setup, 1, (char[256]){0}); }
int main(void) { return in_child(attempt, "done"); }
