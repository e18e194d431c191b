// tries: to open the program that closed the room, to overwrite it while it runs
// inside: EACCES
// outside root: open
#include "attempt.h"
int main(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", victim());
    return said(open(path, O_RDONLY), "open");
}
