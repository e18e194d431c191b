// tries: to see whether a file is there
// inside strict: EPERM
// outside: there
#include "attempt.h"
int main(void) { return said(syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &(struct stat){0}, 0), "there"); }
