// tries: to exchange the root
// inside: EPERM
// outside namespace: pivoted
#include "attempt.h"
static long attempt(void) {
    mount("x", "sub", "tmpfs", 0, 0);
    if (chdir("sub") < 0) return -1;
    return syscall(SYS_pivot_root, ".", ".");
}
int main(void) { return in_child(attempt, "pivoted"); }
