// tries: to open the host's table of names for writing
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) { return said(open("/etc/hosts", O_WRONLY), "open"); }
