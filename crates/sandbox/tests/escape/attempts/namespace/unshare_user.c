// tries: a user namespace of its own, in which it would have every capability
// inside: EPERM
// outside: root of a namespace
#include "attempt.h"
static long attempt(void) { return unshare(CLONE_NEWUSER); }
int main(void) { return in_child(attempt, "root of a namespace"); }
