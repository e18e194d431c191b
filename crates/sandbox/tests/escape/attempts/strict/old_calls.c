// tries: to use the 32-bit calls
// inside strict: signal 31
// outside: used
#include "attempt.h"
int main(void) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory"); /* getpid */
    return said(result, "used");
}
