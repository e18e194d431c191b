// tries: to make a file that cannot be removed
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) {
    int file = open("open.txt", O_RDONLY);
    long set = ioctl(file, 0x40086602, (long[]){0x10});
    if (set == 0) ioctl(file, 0x40086602, (long[]){0});
    return set;
}
int main(void) { return in_child(attempt, "done"); }
