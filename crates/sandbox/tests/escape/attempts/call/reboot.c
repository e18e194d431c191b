// tries: to switch the combination for restarts off
// inside: EPERM
// outside namespace: EINVAL
#include "attempt.h"
static long attempt(void) { return syscall(SYS_reboot, 0xfee1dead, 672274793, 0, 0); }
int main(void) { return in_child(attempt, "done"); }
