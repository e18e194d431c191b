// tries: a file of a terabyte that holds nothing, for whoever reads it
// limits: file=64m
// inside: signal 25
// outside: a terabyte
#include "attempt.h"
static long attempt(void) { return ftruncate(open("sparse", O_CREAT | O_WRONLY, 0644), 1l << 40); }
int main(void) { return in_child(attempt, "a terabyte"); }
