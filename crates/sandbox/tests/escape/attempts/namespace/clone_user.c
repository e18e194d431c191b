// tries: the same by clone, whose flags a filter can read
// inside: EPERM
// outside: root of a namespace
#include "attempt.h"
static long attempt(void) {
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    return child;
}
int main(void) { return in_child(attempt, "root of a namespace"); }
