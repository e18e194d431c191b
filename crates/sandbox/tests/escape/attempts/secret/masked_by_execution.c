// tries: to have the kernel read a masked file as a program
// inside: EACCES
// outside: ENOEXEC
#include "attempt.h"
static long attempt(void) {
    chmod(".env", 0755);
    return execl(".env", ".env", 0);
}
int main(void) { return in_child(attempt, "ran"); }
