// tries: to make a link
// inside strict: EPERM
// outside: linked
#include "attempt.h"
int main(void) { return said(symlink("/etc/passwd", "passwd"), "linked"); }
