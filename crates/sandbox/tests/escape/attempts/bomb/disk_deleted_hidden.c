// tries: to fill the disk with files that it deletes and keeps open, in a process whose files others may not look at
// limits: disk=8m wall=60
// inside: overfull
// outside: 64 MiB
#include "attempt.h"
int main(void) {
    static char megabytes[4 << 20];
    prctl(PR_SET_DUMPABLE, 0);
    for (int made = 0; made < 16; made++) {
        int file = open("file", O_CREAT | O_WRONLY, 0600);
        if (write(file, megabytes, sizeof megabytes) != sizeof megabytes) return said(-1, "");
        unlink("file");
    }
    if (victim() == 1) sleep(100);
    return said(0, "64 MiB");
}
