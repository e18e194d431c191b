// tries: the same by clone3, whose flags lie in memory, where no filter sees them
// inside: ENOSYS
// outside: root of a namespace
#include "attempt.h"
#include <linux/sched.h>
static long attempt(void) {
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0) _exit(0);
    return child;
}
int main(void) { return in_child(attempt, "root of a namespace"); }
