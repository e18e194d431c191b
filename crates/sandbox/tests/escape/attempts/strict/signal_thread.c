// tries: to signal another process as one signals a thread, which it must be able to do to its own
// inside strict: EPERM
// outside: signalled
#include "attempt.h"
int main(void) { return said(syscall(SYS_tgkill, stranger(), stranger(), 0), "signalled"); }
