// tries: to trace its own child, through which filters have been passed by
// inside: EPERM
// outside: traced
#include "attempt.h"
static long attempt(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0); }
int main(void) { return in_child(attempt, "traced"); }
