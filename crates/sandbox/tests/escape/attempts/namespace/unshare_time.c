// tries: a time namespace, whose bit clone gives to the exit signal
// inside: EPERM
// outside namespace: own time
#include "attempt.h"
static long attempt(void) { return unshare(0x80); }
int main(void) { return in_child(attempt, "own time"); }
