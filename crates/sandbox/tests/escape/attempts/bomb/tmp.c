// tries: to fill /tmp, which is memory
// limits: tmp=1m
// inside: ENOSPC
// outside: 8 MiB
#include "attempt.h"
int main(void) {
    static char piece[1 << 20];
    char name[] = "/tmp/skep-escape-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    for (int i = 0; i < 8; i++) if (write(file, piece, sizeof piece) < (long)sizeof piece) return said(write(file, piece, 1), "?");
    return said(0, "8 MiB");
}
