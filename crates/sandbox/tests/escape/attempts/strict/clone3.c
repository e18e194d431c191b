// tries: to have a child by the newer call
// inside strict: EPERM
// outside: forked
#include "attempt.h"
int main(void) {
    uint64_t arguments[8] = {0, 0, 0, 0, SIGCHLD, 0, 0, 0};
    pid_t child = syscall(SYS_clone3, arguments, sizeof arguments);
    if (child == 0) syscall(SYS_exit, 0);
    return said(child, "forked");
}
