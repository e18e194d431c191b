// tries: to have the kernel kill a process of the host, as the one to be told of a pipe
// inside: ESRCH
// outside: killed
#include "attempt.h"
int main(void) {
    int ends[2];
    pipe(ends);
    fcntl(ends[0], F_SETSIG, SIGKILL);
    if (fcntl(ends[0], F_SETOWN, stranger()) < 0) return said(-1, "");
    fcntl(ends[0], F_SETFL, O_ASYNC);
    write(ends[1], "x", 1);
    for (int i = 0; i < 100; i++, usleep(10000)) {
        char path[64], text[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", stranger());
        int stat = open(path, O_RDONLY);
        if (stat < 0 || read(stat, text, 255) <= 0 || strstr(text, ") Z ")) return said(0, "killed");
        close(stat);
    }
    return said(0, "not killed");
}
