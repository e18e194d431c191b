// tries: to read the kernel's messages by system call
// inside: EPERM
// outside root: read
#include "attempt.h"
int main(void) {
    char buffer[4096];
    return said(syscall(SYS_syslog, 3, buffer, sizeof buffer), "read");
}
