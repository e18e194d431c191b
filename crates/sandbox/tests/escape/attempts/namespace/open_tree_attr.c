// tries: a call of newer kernels that no list names: a copy of a mount with other flags
// inside: ENOSYS
// outside namespace: copied
#include "attempt.h"
int main(void) {
    struct { uint64_t set, clear, propagation, user; } flags = {1};
    return said(syscall(467, AT_FDCWD, "/", 1 | AT_RECURSIVE, &flags, sizeof flags), "copied");
}
