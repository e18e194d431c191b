// tries: to send a message as somebody else
// inside: EINVAL
// inside podman: EPERM
// outside root: forged
#include "attempt.h"
int main(void) {
    int ends[2], on = 1;
    socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
    setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    char space[CMSG_SPACE(sizeof(struct ucred))] = "";
    struct iovec text = {"x", 1};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof(struct ucred)), SOL_SOCKET, SCM_CREDENTIALS};
    *(struct ucred *)CMSG_DATA(head) = (struct ucred){getpid(), 33, 33};
    return said(sendmsg(ends[0], &message, 0), "forged");
}
