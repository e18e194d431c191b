// tries: to swap a folder and a link while it opens what lies behind, each ten thousand times
// inside: never told
// outside: told
#include "attempt.h"
#include <pthread.h>
#include <sched.h>
static volatile int swaps;
// Each yields after its turn: where both have one processor, they still meet.
static void *swap(void *unused) {
    for (;; swaps++, sched_yield()) renameat2(AT_FDCWD, "here", AT_FDCWD, "there", 2);
}
int main(void) {
    pthread_t thread;
    mkdir("here", 0755);
    close(open("here/token", O_CREAT | O_WRONLY, 0644));
    symlink(told("SKEP_HOME"), "there");
    pthread_create(&thread, 0, swap, 0);
    for (int i = 0; i < 10000 || swaps < 10000; i++, sched_yield()) {
        char text[64] = "";
        int file = open("here/token", O_RDONLY);
        if (file >= 0 && read(file, text, 63) > 7) return said(0, "told");
        if (file >= 0) close(file);
    }
    return said(0, "never told");
}
