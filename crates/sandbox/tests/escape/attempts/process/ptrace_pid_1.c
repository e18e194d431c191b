// tries: to trace the process that closed the room, and run code as it
// inside: EPERM
// outside root: attached
#include "attempt.h"
int main(void) { return said(ptrace(PTRACE_SEIZE, victim(), 0, 0), "attached"); }
