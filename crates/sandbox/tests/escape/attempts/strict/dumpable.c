// tries: to change what others may see of it
// inside strict: EPERM
// outside: changed
#include "attempt.h"
int main(void) { return said(prctl(PR_SET_DUMPABLE, 0), "changed"); }
