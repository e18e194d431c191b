// tries: a better place in the queue
// inside: EACCES
// outside root: better
#include "attempt.h"
int main(void) { return said(setpriority(PRIO_PROCESS, 0, -20), "better"); }
