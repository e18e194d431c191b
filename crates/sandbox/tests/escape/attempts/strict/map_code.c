// tries: to map memory that holds code
// inside strict: EPERM
// outside: mapped
#include "attempt.h"
int main(void) { return said(mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0, "mapped"); }
