// tries: to make a file that cannot be removed
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return ioctl(open("open.txt", O_RDONLY), 0x40086602, (long[]){0x10}); }
int main(void) { return in_child(attempt, "done"); }
