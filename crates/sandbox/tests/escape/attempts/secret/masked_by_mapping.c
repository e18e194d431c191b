// tries: to map a masked file into memory
// inside: EACCES
// outside: mapped
#include "attempt.h"
int main(void) {
    int file = open(".env", O_RDONLY);
    if (file < 0) return said(file, "");
    return said(mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED ? -1 : 0, "mapped");
}
