// tries: the same by the old type of an internet socket, which a filter on families does not see
// inside: EPERM
// outside namespace: opened
#include "attempt.h"
int main(void) { return said(socket(AF_INET, SOCK_PACKET, 0x0300), "opened"); }
