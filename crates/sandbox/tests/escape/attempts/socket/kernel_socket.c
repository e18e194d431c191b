// tries: to talk to the kernel by its socket
// inside: ENOENT
// outside: connected
#include "attempt.h"
int main(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/kernel.sock", told("SKEP_HOME"));
    return said(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, sizeof name), "connected");
}
