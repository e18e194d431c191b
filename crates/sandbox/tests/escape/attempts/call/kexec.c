// tries: to start another kernel; the null segments load nothing
// inside: EPERM
// outside root: done
// needs: /sys/kernel/kexec_loaded
#include "attempt.h"
static long attempt(void) { return syscall(SYS_kexec_load, 0, 0, 0, 0); }
int main(void) { return in_child(attempt, "done"); }
