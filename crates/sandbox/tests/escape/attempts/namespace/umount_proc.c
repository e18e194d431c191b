// tries: to lift the room's own /proc off the host's, which lies beneath
// inside: EPERM
// outside namespace: lifted
#include "attempt.h"
int main(void) { return said(umount2("/proc", MNT_DETACH), "lifted"); }
