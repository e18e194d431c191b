// tries: to change its segments
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_modify_ldt, 0, (char[64]){0}, 64); }
int main(void) { return in_child(attempt, "done"); }
