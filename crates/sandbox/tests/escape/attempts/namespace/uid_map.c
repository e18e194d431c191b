// tries: to map itself to root in the namespace that the room has
// inside: EACCES
// outside: mapped
#include "attempt.h"
static long attempt(void) {
    int uid = getuid();
    unshare(CLONE_NEWUSER);
    char map[64];
    int file = open("/proc/self/uid_map", O_WRONLY);
    if (file < 0) return file;
    return write(file, map, snprintf(map, sizeof map, "0 %d 1", uid));
}
int main(void) { return in_child(attempt, "mapped"); }
