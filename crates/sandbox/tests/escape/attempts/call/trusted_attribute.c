// tries: to forge a mark of the overlay
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return setxattr("sub", "trusted.overlay.opaque", "y", 1, 0); }
int main(void) { return in_child(attempt, "done"); }
