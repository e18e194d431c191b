// tries: to enter namespaces by a pidfd instead of a file
// inside: EPERM
// outside root: entered
#include "attempt.h"
static long attempt(void) {
    int process = syscall(SYS_pidfd_open, victim(), 0);
    return process < 0 ? process : setns(process, CLONE_NEWNS | CLONE_NEWNET);
}
int main(void) { return in_child(attempt, "entered"); }
