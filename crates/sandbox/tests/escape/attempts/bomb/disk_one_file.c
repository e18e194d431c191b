// tries: to fill the disk with one file, faster than anybody looks
// limits: disk=8m
// inside: 8 MiB, then signal 25
// outside: 64 MiB, then signal 0
#include "attempt.h"
int main(void) {
    static char megabyte[1 << 20];
    int file = open("file", O_CREAT | O_WRONLY, 0600), status;
    if (fork() == 0) {
        for (int made = 0; made < 64; made++) if (write(file, megabyte, sizeof megabyte) < 0) return 1;
        return 0;
    }
    wait(&status);
    struct stat now;
    fstat(file, &now);
    printf("%d MiB, then signal %d\n", (int)(now.st_size >> 20), WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    ftruncate(file, 0);
    return 0;
}
