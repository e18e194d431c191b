// tries: to hand an open folder of the room to a program of the host, which would then walk up out of the overlay
// inside: ECONNREFUSED
// outside: handed over
#include "attempt.h"
int main(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s", told("ABSTRACT"));
    int peer = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(peer, (void *)&name, 3 + length) < 0) return said(-1, "");
    union { struct cmsghdr head; char space[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct iovec data = {"x", 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    *(int *)CMSG_DATA(&control.head) = open(".", O_RDONLY);
    return said(sendmsg(peer, &message, 0), "handed over");
}
