// tries: to write its own IPv6 packets
// inside: EPERM
// outside namespace: opened
#include "attempt.h"
#include <netinet/in.h>
int main(void) { return said(socket(AF_INET6, SOCK_RAW, IPPROTO_RAW), "opened"); }
