// tries: clone with junk in the high half of its flags, to slip past a filter that compares all 64 bits
// inside: EPERM
// outside: root of a namespace
#include "attempt.h"
static long attempt(void) {
    long child = syscall(SYS_clone, 0xdead00000000ul | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    return child;
}
int main(void) { return in_child(attempt, "root of a namespace"); }
