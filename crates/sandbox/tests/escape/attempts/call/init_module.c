// tries: to load a module
// inside: EPERM
// outside root: ENOEXEC
// needs: /proc/modules
#include "attempt.h"
static long attempt(void) { return syscall(SYS_init_module, "", 0, ""); }
int main(void) { return in_child(attempt, "done"); }
