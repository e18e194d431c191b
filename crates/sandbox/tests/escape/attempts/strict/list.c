// tries: to list a folder whose descriptor it was left
// inside strict: EPERM
// outside: listed
#include "attempt.h"
static int folder;
static char entries[4096];
/* Runs before the lock, as whatever it inherited came before. */
__attribute__((constructor)) static void before(void) { folder = open(".", O_RDONLY); }
int main(void) { return said(syscall(SYS_getdents64, folder, entries, sizeof entries), "listed"); }
