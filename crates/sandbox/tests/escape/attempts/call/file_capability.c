// tries: to give a file capabilities
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return setxattr("open.txt", "security.capability", "\1\0\0\2\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, 0); }
int main(void) { return in_child(attempt, "done"); }
