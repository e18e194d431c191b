// tries: to write one file without end
// limits: file=1m
// inside: signal 25
// outside: 8 MiB
#include "attempt.h"
static long attempt(void) {
    static char piece[1 << 20];
    int file = open("big", O_CREAT | O_WRONLY, 0644);
    for (int i = 0; i < 8; i++) if (write(file, piece, sizeof piece) < 0) return -1;
    return 0;
}
int main(void) { return in_child(attempt, "8 MiB"); }
