// tries: to have the host fetch a key, by a program of root
// inside: EPERM
// outside: ENOKEY
#include "attempt.h"
static long attempt(void) { return syscall(SYS_request_key, "user", "skep-escape", 0, -3); }
int main(void) { return in_child(attempt, "done"); }
