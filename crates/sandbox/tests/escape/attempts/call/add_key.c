// tries: to leave a key in the kernel for another
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_add_key, "user", "skep-escape", "x", 1, -3); }
int main(void) { return in_child(attempt, "done"); }
