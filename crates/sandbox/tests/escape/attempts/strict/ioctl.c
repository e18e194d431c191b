// tries: to ask a driver
// inside strict: EPERM
// outside: asked
#include "attempt.h"
int main(void) {
    int waiting;
    return said(ioctl(told("PIPE") ? atoi(told("PIPE")) : 1, FIONREAD, &waiting), "asked");
}
