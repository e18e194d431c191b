// tries: to see the project's folders from another place, without their masks
// inside: EPERM
// outside namespace: mounted
#include "attempt.h"
int main(void) { return said(mount(".", "sub", 0, MS_BIND, 0), "mounted"); }
