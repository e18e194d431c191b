// tries: a call of newer kernels that no list names: every mount by its number
// inside: ENOSYS
// outside: listed
#include "attempt.h"
int main(void) {
    struct { uint32_t size, spare; uint64_t mount, parameter; } all = {24, 0, 0xffffffffffffffffull, 0};
    uint64_t found[4];
    return said(syscall(458, &all, found, 4, 0), "listed");
}
