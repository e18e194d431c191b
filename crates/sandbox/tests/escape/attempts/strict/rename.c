// tries: to rename a file
// inside strict: EPERM
// outside: renamed
#include "attempt.h"
int main(void) { return said(rename("open.txt", "closed.txt"), "renamed"); }
