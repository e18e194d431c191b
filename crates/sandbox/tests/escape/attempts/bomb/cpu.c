// tries: to calculate for ever
// limits: cpu=1
// inside: signal 9
// outside: two seconds
#include "attempt.h"
#include <time.h>
int main(void) {
    signal(SIGXCPU, SIG_IGN);
    while (clock() < 2 * CLOCKS_PER_SEC);
    return said(0, "two seconds");
}
