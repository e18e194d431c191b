// tries: to type into a terminal with junk in the high half of the request, which the kernel drops
// inside: EPERM
// outside root: typed
#include "attempt.h"
static long attempt(void) {
    setsid();
    int master = posix_openpt(O_RDWR);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) return -1;
    int terminal = open(ptsname(master), O_RDWR);
    return syscall(SYS_ioctl, terminal, 0xdead00000000ul | TIOCSTI, "x");
}
int main(void) { return in_child(attempt, "typed"); }
