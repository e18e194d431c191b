// tries: to kill all that it may: -1 names everyone whom it can see
// inside: signal 9
// outside namespace: killed
#include "attempt.h"
int main(void) {
    pid_t other = fork();
    if (other == 0) for (;;) pause();
    if (fork() == 0) _exit(kill(-1, SIGKILL));
    /* Only who is pid 1, as outside, lives to see it. */
    int status;
    waitpid(other, &status, 0);
    return said(WIFSIGNALED(status) ? 0 : -1, "killed");
}
