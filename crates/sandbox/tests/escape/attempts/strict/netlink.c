// tries: to make a netlink socket
// inside strict: EPERM
// outside: made
#include "attempt.h"
int main(void) { return said(socket(AF_NETLINK, SOCK_RAW, 0), "made"); }
