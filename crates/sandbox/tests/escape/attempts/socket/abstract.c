// tries: to talk to a program of the host by a name that needs no file, as D-Bus and X have
// inside: ECONNREFUSED
// outside: connected
#include "attempt.h"
int main(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s", told("ABSTRACT"));
    return said(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, 3 + length), "connected");
}
