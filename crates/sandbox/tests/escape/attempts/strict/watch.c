// tries: to watch files
// inside strict: EPERM
// outside: watching
#include "attempt.h"
int main(void) { return said(syscall(SYS_inotify_init1, 0), "watching"); }
