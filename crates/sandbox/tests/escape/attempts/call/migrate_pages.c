// tries: to move the memory of others
// inside: EPERM
// outside root: done
#include "attempt.h"
static long attempt(void) { return syscall(SYS_migrate_pages, victim(), 8, (long[]){1}, (long[]){1}); }
int main(void) { return in_child(attempt, "done"); }
