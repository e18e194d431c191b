// tries: to open a file by the newer call
// inside strict: EPERM
// outside: opened
#include "attempt.h"
int main(void) { return said(syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", (uint64_t[3]){0, 0, 0}, 24), "opened"); }
