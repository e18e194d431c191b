// tries: to become root by number
// inside: EPERM
// outside namespace: done
#include "attempt.h"
static long attempt(void) { return setuid(0); }
int main(void) { return in_child(attempt, "done"); }
