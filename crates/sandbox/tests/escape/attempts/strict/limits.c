// tries: to change its limits
// inside strict: EPERM
// outside: changed
#include "attempt.h"
int main(void) {
    struct rlimit none = {0, 0};
    return said(syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, NULL), "changed");
}
