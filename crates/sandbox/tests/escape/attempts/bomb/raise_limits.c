// tries: to raise its limits again
// limits: files=64
// inside: EPERM
// outside: raised
#include "attempt.h"
int main(void) {
    struct rlimit more = {1000, 1000}, had;
    getrlimit(RLIMIT_NOFILE, &had);
    if (had.rlim_max > 1000) more.rlim_max = had.rlim_max;
    return said(setrlimit(RLIMIT_NOFILE, &more), "raised");
}
