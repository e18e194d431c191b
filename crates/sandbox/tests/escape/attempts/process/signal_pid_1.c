// tries: to end the process that closed the room, with every signal, before it can count the dead
// inside: still there
// outside: ended
#include "attempt.h"
int main(void) {
    for (int signal = 1; signal < 65; signal++) kill(victim(), signal);
    usleep(50000);
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", victim());
    FILE *stat = fopen(path, "r");
    if (stat) fscanf(stat, "%*d (%*[^)]) %c", &state);
    puts(stat && state != 'Z' && state != 'X' && state != 'T' ? "still there" : "ended");
    return 0;
}
