// tries: to have the host write down each process
// inside: EPERM
// outside root: ENOENT
#include "attempt.h"
static long attempt(void) { return acct("/nowhere/at/all"); }
int main(void) { return in_child(attempt, "done"); }
