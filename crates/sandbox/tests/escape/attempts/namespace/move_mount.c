// tries: to move a mount away from its place
// inside: EPERM
// outside namespace: moved
#include "attempt.h"
int main(void) {
    mount("x", "sub", "tmpfs", 0, 0);
    mkdir("other", 0755);
    return said(syscall(SYS_move_mount, AT_FDCWD, "sub", AT_FDCWD, "other", 0), "moved");
}
