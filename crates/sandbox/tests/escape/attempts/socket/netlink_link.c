// tries: to change a network interface
// inside: EPERM
// outside namespace: changed
#include "attempt.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/if_link.h>
int main(void) {
    int link = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (link < 0) return said(link, "");
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
        struct rtattr name;
        char text[8];
    } ask = {
        .head = {sizeof ask, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK},
        .info = {.ifi_index = 1, .ifi_change = 1},
        .name = {12, IFLA_IFNAME},
        .text = "lo",
    };
    ask.head.nlmsg_len = sizeof(struct nlmsghdr) + sizeof(struct ifinfomsg);
    send(link, &ask, ask.head.nlmsg_len, 0);
    struct { struct nlmsghdr head; struct nlmsgerr error; char rest[512]; } answer;
    if (recv(link, &answer, sizeof answer, 0) < 0) return said(-1, "");
    errno = -answer.error.error;
    return said(errno ? -1 : 0, "changed");
}
