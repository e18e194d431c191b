// tries: to hang up the terminal
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return vhangup(); }
int main(void) { return in_child(attempt, "done"); }
