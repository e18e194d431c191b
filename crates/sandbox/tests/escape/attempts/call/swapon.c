// tries: to swap memory to a file of its own
// inside: EPERM
// outside root: ENOENT
#include "attempt.h"
static long attempt(void) { return syscall(SYS_swapon, "/nowhere", 0); }
int main(void) { return in_child(attempt, "done"); }
