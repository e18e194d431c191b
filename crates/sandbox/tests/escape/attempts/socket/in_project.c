// tries: to talk to a program of the host by a socket that lies in the project
// inside: ECONNREFUSED
// outside: connected
#include "attempt.h"
int main(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    return said(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, sizeof name), "connected");
}
