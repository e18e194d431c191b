// tries: to make a file in memory, which could be executed
// inside strict: EPERM
// outside: made
#include "attempt.h"
int main(void) { return said(memfd_create("code", 0), "made"); }
