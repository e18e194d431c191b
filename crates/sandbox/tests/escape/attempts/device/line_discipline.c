// tries: to load a driver for serial lines, where holes of the kernel have been
// inside: EPERM
// outside: loaded
#include "attempt.h"
int main(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY), number = 0;
    if (master < 0) return said(master, "");
    return said(ioctl(master, 0x5423, &number), "loaded");
}
