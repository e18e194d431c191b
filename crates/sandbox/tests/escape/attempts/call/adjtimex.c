// tries: to bend the clock
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_adjtimex, (char[256]){0}) < 0 ? -1 : 0; }
int main(void) { return in_child(attempt, "done"); }
