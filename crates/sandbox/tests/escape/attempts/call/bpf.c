// tries: to load a program into the kernel
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_bpf, 0, (uint32_t[16]){2, 4, 4, 1}, 64); }
int main(void) { return in_child(attempt, "done"); }
