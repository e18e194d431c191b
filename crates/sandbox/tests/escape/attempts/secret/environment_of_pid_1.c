// tries: to read the environment of the process that closed the room
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", victim());
    return said(open(path, O_RDONLY), "open");
}
