// tries: to fill the disk with files in the project
// limits: disk=8m wall=120
// inside: overfull
// outside: 64 MiB
#include "attempt.h"
int main(void) {
    static char megabyte[1 << 20];
    char name[32];
    for (int made = 0; made < 64; made++) {
        snprintf(name, sizeof name, "file%d", made);
        int file = open(name, O_CREAT | O_WRONLY, 0600);
        if (write(file, megabyte, sizeof megabyte) != sizeof megabyte) return said(-1, "");
        close(file);
    }
    /* It goes on holding them: in a room until that is seen. */
    if (victim() == 1) sleep(100);
    return said(0, "64 MiB");
}
