// tries: to make all readable memory executable
// inside strict: EPERM
// outside: changed
#include "attempt.h"
int main(void) { return said(syscall(SYS_personality, 0x0400000), "changed"); }
