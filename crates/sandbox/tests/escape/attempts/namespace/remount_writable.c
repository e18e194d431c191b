// tries: to make /usr writable
// inside: EPERM
// outside namespace: remounted
#include "attempt.h"
static long attempt(void) {
    const char *at = access("/.layers", F_OK) == 0 ? "/usr" : "/tmp";
    if (strcmp(at, "/tmp") == 0 && mount("x", at, "tmpfs", MS_RDONLY, 0) < 0) return -1;
    return mount(0, at, 0, MS_REMOUNT | MS_BIND, 0);
}
int main(void) { return in_child(attempt, "remounted"); }
