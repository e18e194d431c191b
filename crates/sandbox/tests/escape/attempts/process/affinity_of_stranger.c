// tries: to say on which processor a process of the host runs
// inside: ESRCH
// outside: moved
#include "attempt.h"
int main(void) {
    cpu_set_t held;
    sched_getaffinity(0, sizeof held, &held);
    return said(sched_setaffinity(stranger(), sizeof held, &held), "moved");
}
