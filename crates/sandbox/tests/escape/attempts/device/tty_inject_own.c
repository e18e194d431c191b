// tries: to type into a terminal that it has made for itself: the same call where it could work
// inside: EPERM
// outside root: typed
#include "attempt.h"
static long attempt(void) {
    setsid();
    int master = posix_openpt(O_RDWR);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) return -1;
    int terminal = open(ptsname(master), O_RDWR);
    if (terminal < 0) return terminal;
    return ioctl(terminal, TIOCSTI, "x");
}
int main(void) { return in_child(attempt, "typed"); }
