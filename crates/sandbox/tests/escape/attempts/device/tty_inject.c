// tries: to type into the terminal of whoever started it
// inside: EPERM
// outside: ENOTTY
#include "attempt.h"
int main(void) { return said(ioctl(0, TIOCSTI, "x"), "typed"); }
