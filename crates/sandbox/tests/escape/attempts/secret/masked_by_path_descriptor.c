// tries: to open a masked file without reading, and then that descriptor for reading
// inside: EACCES
// outside: read
#include "attempt.h"
int main(void) {
    int path = open(".env", O_PATH);
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", path);
    return said(path < 0 ? path : open(again, O_RDONLY), "read");
}
