// tries: to queue a signal with a made-up sender for a process of the host
// inside: ESRCH
// outside: queued
#include "attempt.h"
int main(void) { return said(sigqueue(stranger(), SIGCONT, (union sigval){.sival_int = 1}), "queued"); }
