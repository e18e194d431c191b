// tries: to take a mount's read-only attribute away
// inside: EPERM
// outside namespace: cleared
#include "attempt.h"
#include <linux/mount.h>
int main(void) {
    const char *at = mount("x", "sub", "tmpfs", MS_RDONLY, 0) == 0 ? "sub" : "/usr";
    struct { uint64_t set, clear, propagation, userns; } attributes = {.clear = 1};
    return said(syscall(SYS_mount_setattr, AT_FDCWD, at, 0, &attributes, sizeof attributes), "cleared");
}
