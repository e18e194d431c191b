// tries: to enter the namespaces of the process that closed the room
// inside: EACCES
// outside root: entered
#include "attempt.h"
static long attempt(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", victim());
    int ns = open(path, O_RDONLY);
    return ns < 0 ? ns : setns(ns, CLONE_NEWNS);
}
int main(void) { return in_child(attempt, "entered"); }
