// tries: to make a folder
// inside strict: EPERM
// outside: made
#include "attempt.h"
int main(void) { return said(mkdir("folder", 0700), "made"); }
