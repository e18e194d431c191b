// tries: to read the memory of the process that closed the room
// inside: EPERM
// outside root: EFAULT
#include "attempt.h"
int main(void) {
    char buffer[8];
    struct iovec here = {buffer, 8}, there = {(void *)4096, 8};
    return said(process_vm_readv(victim(), &here, 1, &there, 1, 0), "read");
}
