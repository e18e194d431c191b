// tries: to signal another process with a value
// inside strict: EPERM
// outside: signalled
#include "attempt.h"
int main(void) { return said(sigqueue(getppid(), 0, (union sigval){0}), "signalled"); }
