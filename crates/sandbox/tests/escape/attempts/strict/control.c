// tries: to control a descriptor
// inside strict: EPERM
// outside: controlled
#include "attempt.h"
int main(void) { return said(fcntl(1, F_SETFD, FD_CLOEXEC), "controlled"); }
