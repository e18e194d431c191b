// tries: to find open descriptors that nobody meant to give it
// inside: 0 1 2
// outside: 0 1 2 and 7
#include "attempt.h"
int main(int count, char **arguments) {
    /* Outside it starts itself once more with one descriptor too many, which the search must find. */
    int outside = victim() != 1;
    if (outside && count == 1) {
        close_range(3, ~0u, 0);
        dup2(0, 7);
        execl("/proc/self/exe", "attempt", "again", 0);
    }
    char line[256] = "";
    for (int fd = 0; fd < 65536; fd++)
        if (fcntl(fd, F_GETFD) >= 0) sprintf(line + strlen(line), fd > 2 ? " and %d" : fd ? " %d" : "%d", fd);
    return said(0, line);
}
