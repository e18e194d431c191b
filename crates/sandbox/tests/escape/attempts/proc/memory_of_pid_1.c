// tries: to open the memory of the process that closed the room as a file
// inside: EACCES
// outside: open
#include "attempt.h"
int main(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", victim());
    return said(open(path, O_RDWR), "open");
}
