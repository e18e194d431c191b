// tries: transports that hardly anyone uses (SCTP, DCCP, SMC, UDP-Lite), whose code the host would load
// inside: EPERM EPERM EPERM EPERM
// outside: reached the kernel
#include "attempt.h"
int main(void) {
    int protocols[] = {132, 33, 256, 136}, types[] = {SOCK_STREAM, 6, SOCK_STREAM, SOCK_DGRAM}, asked = 0;
    char line[128] = "";
    for (int i = 0; i < 4; i++) {
        int fd = socket(AF_INET, types[i], protocols[i]);
        if (fd >= 0 || errno != EPERM) asked++;
        strcat(strcat(line, i ? " " : ""), fd < 0 ? strerrorname_np(errno) : "opened");
    }
    return said(0, asked ? "reached the kernel" : line);
}
