// tries: the old way out of a chroot: another one, then up and up
// inside: EPERM
// outside namespace: out
#include "attempt.h"
static long attempt(void) {
    if (chroot("sub") < 0) return -1;
    for (int i = 0; i < 64; i++) chdir("..");
    return chroot(".");
}
int main(void) { return in_child(attempt, "out"); }
