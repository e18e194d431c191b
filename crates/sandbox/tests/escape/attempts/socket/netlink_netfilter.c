// tries: to reach the packet filter, where many holes of the kernel have been
// inside: EPERM
// outside: opened
#include "attempt.h"
int main(void) { return said(socket(AF_NETLINK, SOCK_RAW, 12), "opened"); }
