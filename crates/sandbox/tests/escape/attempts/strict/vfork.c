// tries: to have a child that shares its memory
// inside strict: EPERM
// outside: forked
#include "attempt.h"
int main(void) {
    pid_t child = syscall(SYS_vfork);
    if (child == 0) syscall(SYS_exit, 0);
    return said(child, "forked");
}
