// tries: to fill /tmp with empty files, each of which takes memory that its size does not show
// limits: tmp=1m
// inside: ENOSPC
// outside: 2000 files
#include "attempt.h"
int main(void) {
    char folder[] = "/tmp/skep-escape-XXXXXX", name[64];
    int error = 0, made = 0;
    mkdtemp(folder);
    for (; made < 2000 && !error; made++) {
        snprintf(name, sizeof name, "%s/%d", folder, made);
        int file = open(name, O_CREAT | O_WRONLY, 0600);
        error = file < 0 ? errno : close(file);
    }
    while (made--) snprintf(name, sizeof name, "%s/%d", folder, made), unlink(name);
    rmdir(folder);
    errno = error;
    return said(error ? -1 : 0, "2000 files");
}
