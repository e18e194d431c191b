// tries: to write its own IP packets
// inside: EPERM
// outside namespace: opened
#include "attempt.h"
#include <netinet/in.h>
int main(void) { return said(socket(AF_INET, SOCK_RAW, IPPROTO_RAW), "opened"); }
