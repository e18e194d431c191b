// tries: to rename the machine
// inside: EPERM
// outside namespace: done
#include "attempt.h"
static long attempt(void) { return sethostname("x", 1); }
int main(void) { return in_child(attempt, "done"); }
