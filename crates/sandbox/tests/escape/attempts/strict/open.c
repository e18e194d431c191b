// tries: to open a file
// inside strict: EPERM
// outside: opened
#include "attempt.h"
int main(void) { return said(open("/etc/passwd", O_RDONLY), "opened"); }
