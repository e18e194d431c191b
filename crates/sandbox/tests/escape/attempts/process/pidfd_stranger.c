// tries: to signal a process outside by its pidfd
// inside: ESRCH
// outside: reached
#include "attempt.h"
int main(void) {
    int process = syscall(SYS_pidfd_open, stranger(), 0);
    if (process < 0) return said(process, "");
    return said(syscall(SYS_pidfd_send_signal, process, 0, 0, 0), "reached");
}
