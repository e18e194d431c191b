// tries: to end the process that closed the room, with every signal, one by one and many at once, before it can count the dead
// inside: still there
// outside: ended
#include "attempt.h"
#include <sys/wait.h>
static void all(int first) {
    for (int n = 0; n < 64; n++) kill(victim(), 1 + (first + n) % 64);
}
int main(void) {
    all(0);
    /* Several processes, so that handlers interrupt each other. */
    int start[2];
    pipe(start);
    for (int sender = 0; sender < 4; sender++)
        if (fork() == 0) {
            char byte;
            close(start[1]);
            read(start[0], &byte, 1);
            for (int times = 0; times < 50; times++) all(sender * 16);
            _exit(0);
        }
    close(start[0]);
    close(start[1]);
    while (wait(NULL) > 0) {}
    usleep(50000);
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", victim());
    FILE *stat = fopen(path, "r");
    if (stat) fscanf(stat, "%*d (%*[^)]) %c", &state);
    puts(stat && state != 'Z' && state != 'X' && state != 'T' ? "still there" : "ended");
    return 0;
}
