// tries: to change an interface through a socket that has nothing to do with networks
// inside: EPERM
// outside namespace: changed
#include "attempt.h"
#include <net/if.h>
int main(void) {
    struct ifreq loop = {.ifr_name = "lo"};
    loop.ifr_flags = IFF_UP;
    return said(ioctl(socket(AF_UNIX, SOCK_DGRAM, 0), SIOCSIFFLAGS, &loop), "changed");
}
