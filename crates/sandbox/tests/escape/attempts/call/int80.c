// tries: the table of 32-bit calls, whose numbers mean something else
// inside: signal 31
// outside: called
#include "attempt.h"
static long attempt(void) {
    long got;
    __asm__ volatile("int $0x80" : "=a"(got) : "a"(20) : "memory");
    return got > 0 ? 0 : -1;
}
int main(void) { return in_child(attempt, "called"); }
