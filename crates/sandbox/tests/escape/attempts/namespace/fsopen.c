// tries: the new way to mount
// inside: EPERM
// outside namespace: mounted
#include "attempt.h"
int main(void) {
    int context = syscall(SYS_fsopen, "tmpfs", 0);
    if (context < 0) return said(context, "");
    if (syscall(SYS_fsconfig, context, 6, 0, 0, 0) < 0) return said(-1, "");
    return said(syscall(SYS_fsmount, context, 0, 0), "mounted");
}
