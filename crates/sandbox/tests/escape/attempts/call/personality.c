// tries: to switch off the random layout of memory
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_personality, 0x0040000); }
int main(void) { return in_child(attempt, "done"); }
