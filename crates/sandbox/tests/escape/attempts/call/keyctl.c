// tries: to read the keys of its session
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_keyctl, 0, -3, 1); }
int main(void) { return in_child(attempt, "done"); }
