// tries: to create a file
// inside strict: EPERM
// outside: created
#include "attempt.h"
int main(void) { return said(syscall(SYS_openat, AT_FDCWD, "made", O_CREAT | O_WRONLY, 0600), "created"); }
