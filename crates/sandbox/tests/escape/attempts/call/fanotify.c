// tries: to watch and stop what others open
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_fanotify_init, 4, 0); }
int main(void) { return in_child(attempt, "done"); }
