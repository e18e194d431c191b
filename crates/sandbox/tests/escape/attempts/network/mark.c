// tries: to mark its packets as those of another, past the rules of the host
// inside: EPERM
// outside root: marked
#include "attempt.h"
int main(void) {
    int mark = 1;
    return said(setsockopt(socket(AF_UNIX, SOCK_DGRAM, 0), SOL_SOCKET, SO_MARK, &mark, sizeof mark), "marked");
}
