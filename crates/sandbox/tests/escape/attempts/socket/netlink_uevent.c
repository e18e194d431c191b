// tries: to listen to the host's devices
// inside: EPERM
// outside: opened
#include "attempt.h"
int main(void) { return said(socket(AF_NETLINK, SOCK_RAW, 15), "opened"); }
