// tries: to have a child
// inside strict: EPERM
// outside: forked
#include "attempt.h"
int main(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    return said(child, "forked");
}
