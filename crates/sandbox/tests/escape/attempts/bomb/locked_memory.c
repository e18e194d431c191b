// tries: to lock memory that can then not be swapped
// inside: ENOMEM
// outside root: locked
#include "attempt.h"
int main(void) {
    char *piece = mmap(0, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return said(mlock(piece, 32 << 20), "locked");
}
