// tries: to make memory that others can attach
// inside strict: EPERM
// outside: made
#include "attempt.h"
#include <sys/shm.h>
int main(void) {
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    int error = errno;
    if (id >= 0) shmctl(id, IPC_RMID, 0);
    errno = error;
    return said(id, "made");
}
