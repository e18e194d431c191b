// tries: to learn where the program that closed the room lies in memory
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", victim());
    return said(open(path, O_RDONLY), "open");
}
