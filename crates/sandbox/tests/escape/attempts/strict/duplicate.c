// tries: to put a descriptor over another
// inside strict: EPERM
// outside: put
#include "attempt.h"
int main(void) { return said(dup2(1, 100), "put"); }
