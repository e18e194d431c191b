// tries: to make a unix socket, which only a child that speaks over one may
// inside strict: EPERM
// inside strict-unix: made
// outside: made
#include "attempt.h"
int main(void) { return said(socket(AF_UNIX, SOCK_STREAM, 0), "made"); }
