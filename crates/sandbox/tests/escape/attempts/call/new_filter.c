// tries: to lift the filter with one of its own that allows everything
// inside: EPERM
// outside: traced
#include "attempt.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
static long attempt(void) {
    struct sock_filter all = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog program = {1, &all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) return -1;
    return ptrace(PTRACE_TRACEME, 0, 0, 0);
}
int main(void) { return in_child(attempt, "traced"); }
