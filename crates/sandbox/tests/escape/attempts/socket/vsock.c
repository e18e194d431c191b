// tries: to talk to the hypervisor
// inside: EPERM
// outside: opened
// needs: /dev/vsock
#include "attempt.h"
int main(void) { return said(socket(40, SOCK_STREAM, 0), "opened"); }
