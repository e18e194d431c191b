// tries: to reach devices, firmware and modules by /sys
// inside: ENOENT
// outside: open
#include "attempt.h"
int main(void) { return said(open("/sys/kernel", O_RDONLY), "open"); }
