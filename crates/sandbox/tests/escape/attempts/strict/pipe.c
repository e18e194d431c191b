// tries: to make a pipe
// inside strict: EPERM
// outside: made
#include "attempt.h"
int main(void) { return said(pipe((int[2]){0}), "made"); }
