// tries: to read and write raw frames
// inside: EPERM
// outside namespace: opened
#include "attempt.h"
int main(void) { return said(socket(AF_PACKET, SOCK_RAW, 0x0300), "opened"); }
