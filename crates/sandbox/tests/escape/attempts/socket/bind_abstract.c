// tries: to take the name of a program of the host, so that others come to it instead
// inside: took a name of its own
// outside: EADDRINUSE
#include "attempt.h"
int main(void) {
    /* In the room the name is free, as it is another room of names; nobody outside can come to it. */
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s", told("ABSTRACT"));
    return said(bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, 3 + length), "took a name of its own");
}
