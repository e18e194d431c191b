// tries: a lease on a program of the host, so that who wants to write it has to wait
// inside: EACCES
// outside root: leased
#include "attempt.h"
int main(void) { return said(fcntl(open("/usr/bin/env", O_RDONLY), F_SETLEASE, F_RDLCK), "leased"); }
