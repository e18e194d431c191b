// tries: to make an internet socket
// inside strict: EPERM
// outside: made
#include "attempt.h"
int main(void) { return said(socket(AF_INET, SOCK_STREAM, 0), "made"); }
