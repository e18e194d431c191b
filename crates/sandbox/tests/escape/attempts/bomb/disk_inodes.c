// tries: to use up the file system's inodes with empty files
// limits: inodes=500 wall=120
// inside: overfull
// outside: 1500 files
#include "attempt.h"
int main(void) {
    char name[32];
    for (int made = 0; made < 1500; made++) {
        snprintf(name, sizeof name, "file%d", made);
        int file = open(name, O_CREAT | O_WRONLY, 0600);
        if (file < 0) return said(-1, "");
        close(file);
    }
    if (victim() == 1) sleep(100);
    return said(0, "1500 files");
}
