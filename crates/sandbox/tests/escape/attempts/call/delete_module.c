// tries: to take a module out
// inside: EPERM
// outside root: ENOENT
// needs: /proc/modules
#include "attempt.h"
static long attempt(void) { return syscall(SYS_delete_module, "skep_escape", 0); }
int main(void) { return in_child(attempt, "done"); }
