// tries: to learn which frames of the machine's memory it has
// inside: hidden
// outside root: told
#include "attempt.h"
int main(void) {
    uint64_t page = 0;
    int map = open("/proc/self/pagemap", O_RDONLY);
    if (map < 0) return said(0, "hidden");
    pread(map, &page, 8, (uintptr_t)&page / 4096 * 8);
    return said(0, page & 0x7fffffffffffffull ? "told" : "hidden");
}
