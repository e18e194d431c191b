// tries: to learn what a process outside its tree has open
// inside: EPERM
// outside root: compared
#include "attempt.h"
int main(void) { return said(syscall(SYS_kcmp, getpid(), victim(), 0, 0, 0), "compared"); }
