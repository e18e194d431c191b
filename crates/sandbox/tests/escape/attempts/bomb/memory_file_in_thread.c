// tries: to use up the memory with a file that has no name and that only a thread with a table of files of its own holds
// limits: memory=32m wall=60
// inside: out of memory
// inside podman: out of memory | signal 9
// outside: all of it
#include "attempt.h"
static char stack[1 << 16], piece[1 << 20];
static volatile int done;
static int hold(void *nothing) {
    int file = memfd_create("x", 0);
    for (int i = 0; i < 100; i++)
        if (write(file, piece, sizeof piece) < 0) break;
    done = 1;
    /* Where it is watched, it must be there to be seen. */
    for (;;) pause();
}
int main(void) {
    if (clone(hold, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, NULL) < 0) return said(-1, "");
    while (!done) usleep(1000);
    if (victim() == 1) sleep(100);
    return said(0, "all of it");
}
