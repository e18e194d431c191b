// tries: to make code of memory that it wrote
// inside strict: EPERM
// outside: made
#include "attempt.h"
int main(void) { return said(mprotect(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096, PROT_READ | PROT_EXEC), "made"); }
