// tries: to remove a file
// inside strict: EPERM
// outside: removed
#include "attempt.h"
int main(void) { return said(unlink("open.txt"), "removed"); }
