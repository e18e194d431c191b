// tries: to take up the root's file system to make it writable
// inside: EPERM
// outside namespace: taken up
#include "attempt.h"
int main(void) {
    mount("x", "/mnt", "tmpfs", MS_RDONLY, 0);
    return said(syscall(SYS_fspick, AT_FDCWD, "/mnt", 0), "taken up");
}
