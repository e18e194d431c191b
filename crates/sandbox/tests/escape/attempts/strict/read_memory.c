// tries: to read the memory of another process
// inside strict: EPERM
// outside: read
#include "attempt.h"
int main(void) {
    char from = 'x', to;
    struct iovec here = {&to, 1}, there = {&from, 1};
    return said(process_vm_readv(getpid(), &here, 1, &there, 1, 0), "read");
}
