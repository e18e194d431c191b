// tries: an interface of its own, by the device for tunnels
// inside: ENOENT
// outside root: open
// needs: /dev/net/tun
#include "attempt.h"
int main(void) { return said(open("/dev/net/tun", O_RDWR), "open"); }
