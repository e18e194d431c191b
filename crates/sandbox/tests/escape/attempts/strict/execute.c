// tries: to become another program
// inside strict: EPERM
// outside: /bin/echo
#include "attempt.h"
int main(void) { execl("/bin/echo", "echo", "/bin/echo", NULL); return said(-1, ""); }
