// tries: to go elsewhere
// inside strict: EPERM
// outside: gone
#include "attempt.h"
int main(void) { return said(chdir("/"), "gone"); }
