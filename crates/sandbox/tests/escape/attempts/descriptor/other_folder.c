// tries: to walk up and out by a descriptor: `..` at the root, from every folder that is open
// inside: nothing but the room
// outside: the host
#include "attempt.h"
int main(void) {
    for (int fd = 0; fd < 256; fd++) {
        char at[64];
        snprintf(at, sizeof at, "/proc/self/fd/%d/../../../../../../../../root", fd);
        if (access(at, F_OK) == 0) return said(0, "the host");
    }
    chdir("/");
    for (int i = 0; i < 64; i++) chdir("..");
    return said(0, access("root", F_OK) == 0 ? "the host" : "nothing but the room");
}
