// tries: to hold as many open files as it can
// limits: files=64
// inside: EMFILE at 64
// outside: 200
#include "attempt.h"
int main(void) {
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    for (int i = 0; i < 200; i++) {
        int file = dup(0);
        if (file < 0) {
            int last = 0, error = errno;
            for (int fd = 0; fd < 4096; fd++) if (fcntl(fd, F_GETFD) >= 0) last = fd + 1;
            return printf("%s at %d\n", strerrorname_np(error), last), 0;
        }
    }
    return said(0, "200");
}
