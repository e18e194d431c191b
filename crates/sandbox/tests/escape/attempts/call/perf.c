// tries: to watch the machine's counters
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_perf_event_open, (uint32_t[32]){1, 128}, 0, -1, -1, 0); }
int main(void) { return in_child(attempt, "done"); }
