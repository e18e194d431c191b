// tries: to kill a process of the same user outside
// inside: ESRCH
// outside: killed
#include "attempt.h"
int main(void) { return said(kill(stranger(), SIGKILL), "killed"); }
