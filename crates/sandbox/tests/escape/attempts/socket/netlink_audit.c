// tries: to talk to the kernel's audit
// inside: EPERM
// outside: opened
#include "attempt.h"
int main(void) { return said(socket(AF_NETLINK, SOCK_RAW, 9), "opened"); }
