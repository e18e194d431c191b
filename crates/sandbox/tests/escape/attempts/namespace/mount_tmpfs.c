// tries: to mount something over a folder of the room
// inside: EPERM
// outside namespace: mounted
#include "attempt.h"
int main(void) { return said(mount("x", "sub", "tmpfs", 0, 0), "mounted"); }
