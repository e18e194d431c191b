// tries: to have the memory of the process that closed the room paged out
// inside: EACCES
// outside root: paged out
#include "attempt.h"
int main(void) {
    int other = syscall(SYS_pidfd_open, victim(), 0);
    struct iovec piece = {(void *)0x1000, 4096};
    long done = syscall(SYS_process_madvise, other, &piece, 1, MADV_COLD, 0);
    /* Nothing lies at that address; that is found out after leave was given. */
    return said(done < 0 && errno == ENOMEM ? 0 : done, "paged out");
}
