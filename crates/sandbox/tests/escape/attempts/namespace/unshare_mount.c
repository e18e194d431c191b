// tries: a mount namespace of its own
// inside: EPERM
// outside namespace: own mounts
#include "attempt.h"
static long attempt(void) { return unshare(CLONE_NEWNS); }
int main(void) { return in_child(attempt, "own mounts"); }
