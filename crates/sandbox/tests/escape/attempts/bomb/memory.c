// tries: to use up the memory
// limits: memory=32m wall=120
// inside: out of memory
// inside podman: out of memory | signal 9
// outside: all of it
#include "attempt.h"
int main(void) {
    for (int i = 0; i < 100; i++) {
        char *piece = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED) return said(-1, "");
        memset(piece, 1, 1 << 20);
    }
    /* Where it is watched, it must be there to be seen. */
    if (victim() == 1) sleep(100);
    return said(0, "all of it");
}
