// tries: to make an internet socket with the high half of the family set
// inside strict: EPERM
// outside: made
#include "attempt.h"
int main(void) { return said(syscall(SYS_socket, 0x100000000L + AF_INET, SOCK_STREAM, 0), "made"); }
