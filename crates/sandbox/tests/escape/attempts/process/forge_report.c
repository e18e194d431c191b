// tries: to write a report in the name of pid 1
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", victim(), getpid() < 100 && victim() == 1 ? 3 : 0);
    return said(open(path, O_RDONLY), "open");
}
