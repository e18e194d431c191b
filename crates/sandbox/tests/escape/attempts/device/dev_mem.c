// tries: to open the machine's memory
// inside: ENOENT
// outside root: there
#include "attempt.h"
int main(void) { return said(access("/dev/mem", F_OK) < 0 && access("/dev/kmsg", F_OK) < 0 ? -1 : 0, "there"); }
