// tries: to use up the memory with a file that has no name
// limits: memory=32m wall=120
// inside: out of memory
// inside podman: out of memory | signal 9
// outside: all of it
#include "attempt.h"
int main(void) {
    static char piece[1 << 20];
    int file = memfd_create("x", 0);
    for (int i = 0; i < 100; i++) {
        if (write(file, piece, sizeof piece) < 0) return said(-1, "");
    }
    /* Where it is watched, it must be there to be seen. */
    if (victim() == 1) sleep(100);
    return said(0, "all of it");
}
