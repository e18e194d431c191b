// tries: to read memory that processes of the host share by a number
// inside: ENOENT
// outside: told
#include "attempt.h"
#include <sys/shm.h>
int main(void) {
    int segment = shmget(atoi(told("SEGMENT")), 0, 0);
    if (segment < 0) return said(-1, "");
    char *memory = shmat(segment, 0, SHM_RDONLY);
    return said(memory == (char *)-1 ? -1 : 0, memory != (char *)-1 && *memory ? "told" : "empty");
}
