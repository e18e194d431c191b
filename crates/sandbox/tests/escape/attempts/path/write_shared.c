// tries: to change the project itself by memory that it shares with a file, opened before it was copied up
// inside: written
// outside: written
#include "attempt.h"
int main(void) {
    int early = open("open.txt", O_RDONLY), file = open("open.txt", O_RDWR);
    char *text = mmap(0, 5, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), path[64];
    if (text == MAP_FAILED) return said(-1, "");
    memcpy(text, "OPEN", 4);
    msync(text, 5, MS_SYNC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", early);
    return said(write(open(path, O_WRONLY), "o", 1), "written");
}
