// tries: to find any shared memory of the host, whatever its number
// inside: none
// outside: some
#include "attempt.h"
#include <sys/shm.h>
int main(void) {
    struct shm_info all;
    int last = shmctl(0, SHM_INFO, (struct shmid_ds *)&all);
    return said(last < 0 ? -1 : 0, all.used_ids > 0 ? "some" : "none");
}
