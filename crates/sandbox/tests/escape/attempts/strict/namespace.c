// tries: to make a namespace
// inside strict: EPERM
// outside root: made
#include "attempt.h"
int main(void) { return said(unshare(CLONE_NEWUTS), "made"); }
