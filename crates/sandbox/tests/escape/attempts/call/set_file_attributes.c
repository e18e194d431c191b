// tries: a call of newer kernels that no list names: a file that nobody can change any more
// inside: ENOSYS
// outside root: EINVAL
#include "attempt.h"
int main(void) { return said(syscall(469, AT_FDCWD, "open.txt", 0, 1, 0), "set"); }
