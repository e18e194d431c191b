// tries: to rename the machine's domain
// inside: EPERM
// outside namespace: done
#include "attempt.h"
static long attempt(void) { return setdomainname("x", 1); }
int main(void) { return in_child(attempt, "done"); }
