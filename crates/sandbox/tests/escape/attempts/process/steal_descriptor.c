// tries: to take the descriptor on which the room's end is reported
// inside: EPERM
// outside root: taken
#include "attempt.h"
int main(void) {
    int process = syscall(SYS_pidfd_open, victim(), 0);
    if (process < 0) return said(process, "");
    return said(syscall(SYS_pidfd_getfd, process, 0, 0), "taken");
}
