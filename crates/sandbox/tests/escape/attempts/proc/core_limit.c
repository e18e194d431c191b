// tries: to have the host's handler of crashes run, which is root's, by a limit of core files that does not stop it
// inside: 1
// outside: 0
#include "attempt.h"
int main(void) {
    struct rlimit zero = {0, 1}, now;
    getrlimit(RLIMIT_CORE, &now);
    zero.rlim_max = now.rlim_max;
    setrlimit(RLIMIT_CORE, &zero);
    syscall(SYS_setrlimit, RLIMIT_CORE, &zero);
    syscall(SYS_prlimit64, getpid(), RLIMIT_CORE, &zero, NULL);
    getrlimit(RLIMIT_CORE, &now);
    printf("%d\n", (int)now.rlim_cur);
    return 0;
}
