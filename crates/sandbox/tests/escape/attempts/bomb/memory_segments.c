// tries: to use up the memory with segments that processes share by a number
// limits: memory=32m wall=120
// inside: out of memory
// inside podman: out of memory | signal 9
// outside: all of it
#include "attempt.h"
#include <sys/shm.h>
int main(void) {
    for (int i = 0; i < 100; i++) {
        int segment = shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
        if (segment < 0) return said(-1, "");
        char *piece = shmat(segment, 0, 0);
        shmctl(segment, IPC_RMID, 0);
        memset(piece, 1, 1 << 20);
    }
    /* Where it is watched, it must be there to be seen. */
    if (victim() == 1) sleep(100);
    return said(0, "all of it");
}
