// tries: a copy of the project's mount, without the masks on it
// inside: EPERM
// outside namespace: copied
#include "attempt.h"
int main(void) { return said(syscall(SYS_open_tree, AT_FDCWD, ".", 1 | O_CLOEXEC), "copied"); }
