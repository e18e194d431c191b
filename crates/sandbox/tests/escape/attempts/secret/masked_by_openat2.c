// tries: to open a masked file as it is beneath what is mounted on it
// inside: refused
// outside: told
#include "attempt.h"
int main(void) {
    int keys = open("keys", O_PATH);
    for (uint64_t resolve = 0; resolve < 64; resolve++) {
        struct { uint64_t flags, mode, resolve; } how = {O_RDONLY, 0, resolve};
        char text[16] = "";
        int file = syscall(SYS_openat2, keys, "server.pem", &how, sizeof how);
        if (file >= 0 && read(file, text, 15) > 0 && strstr(text, "SECRET")) return said(0, "told");
        if (file >= 0) close(file);
    }
    return said(0, "refused");
}
