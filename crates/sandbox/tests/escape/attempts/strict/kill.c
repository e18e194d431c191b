// tries: to signal another process
// inside strict: EPERM
// outside: signalled
#include "attempt.h"
int main(void) { return said(kill(getppid(), 0), "signalled"); }
