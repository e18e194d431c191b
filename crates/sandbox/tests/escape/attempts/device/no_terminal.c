// tries: to open the terminal of whoever started it
// inside: ENXIO
// outside namespace: open
#include "attempt.h"
static long attempt(void) {
    if (victim() != 1) {
        /* Outside: a terminal that is its own. */
        setsid();
        int master = posix_openpt(O_RDWR | O_NOCTTY);
        grantpt(master), unlockpt(master);
        ioctl(open(ptsname(master), O_RDWR), TIOCSCTTY, 0);
    }
    return open("/dev/tty", O_RDWR);
}
int main(void) { return in_child(attempt, "open"); }
