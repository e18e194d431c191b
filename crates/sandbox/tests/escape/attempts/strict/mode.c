// tries: to change a file's mode
// inside strict: EPERM
// outside: changed
#include "attempt.h"
int main(void) { return said(chmod("open.txt", 0777), "changed"); }
