// tries: to make code of memory by the call that takes a key
// inside strict: EPERM
// outside: made
#include "attempt.h"
int main(void) { return said(syscall(SYS_pkey_mprotect, mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096, PROT_READ | PROT_EXEC, -1), "made"); }
