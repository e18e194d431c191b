// tries: to write into the memory of the process that closed the room
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", victim());
    return said(open(path, O_RDWR), "open");
}
