// tries: to open a program of the host for writing
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) { return said(open("/usr/bin/env", O_WRONLY), "open"); }
