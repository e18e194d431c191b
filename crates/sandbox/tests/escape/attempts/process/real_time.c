// tries: to run before everyone else on the machine
// inside: EPERM
// outside root: first
#include "attempt.h"
int main(void) {
    struct sched_param first = {.sched_priority = 99};
    return said(sched_setscheduler(0, SCHED_FIFO, &first), "first");
}
