// tries: to give itself capabilities
// inside: EPERM
// outside: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_capset, (uint32_t[]){0x20080522, 0}, (uint32_t[6]){0}); }
int main(void) { return in_child(attempt, "done"); }
