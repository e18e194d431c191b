// tries: to fork without end where a cgroup counts
// limits: pids=40 memory=256m
// inside: EAGAIN within 40
// outside: 200 processes
#include "attempt.h"
int main(void) {
    pid_t children[200];
    int made = 0, error = 0;
    while (made < 200 && !error) {
        children[made] = fork();
        if (children[made] == 0) for (;;) pause();
        if (children[made] < 0) error = errno; else made++;
    }
    for (int i = 0; i < made; i++) kill(children[i], SIGKILL);
    if (error) return printf("%s within %d\n", strerrorname_np(error), made < 40 ? 40 : made), 0;
    return said(0, "200 processes");
}
