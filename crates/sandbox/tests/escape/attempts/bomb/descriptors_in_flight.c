// tries: to hold more files than it may, in messages that nobody reads
// limits: files=64
// inside: ETOOMANYREFS
// outside: 200 in flight
#include "attempt.h"
int main(void) {
    struct rlimit few;
    getrlimit(RLIMIT_NOFILE, &few);
    int ends[2], sent = 0, file = open("open.txt", O_RDONLY);
    for (int pair = 0; pair < 25; pair++) {
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0) return said(-1, "");
        for (int i = 0; i < 8; i++, sent++) {
            char space[CMSG_SPACE(sizeof(int))] = "";
            struct iovec text = {"x", 1};
            struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
            struct cmsghdr *head = CMSG_FIRSTHDR(&message);
            *head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
            memcpy(CMSG_DATA(head), &file, sizeof file);
            if (sendmsg(ends[0], &message, MSG_DONTWAIT) < 0) return said(-1, "");
        }
    }
    printf("%d in flight\n", sent);
    return 0;
}
