// tries: to fill /dev/shm, which is memory
// limits: shm=1m
// inside: ENOSPC
// outside: 8 MiB
#include "attempt.h"
int main(void) {
    static char piece[1 << 20];
    char name[] = "/dev/shm/skep-escape-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    for (int i = 0; i < 8; i++) if (write(file, piece, sizeof piece) < (long)sizeof piece) return said(write(file, piece, 1), "?");
    return said(0, "8 MiB");
}
