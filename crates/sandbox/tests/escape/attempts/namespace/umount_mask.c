// tries: to lift the mask off a secret file
// inside: EPERM
// outside namespace: lifted
#include "attempt.h"
static long attempt(void) {
    /* Outside there is no mask, so it makes one for itself. */
    if (access(".env", R_OK) == 0 && mount("/dev/null", ".env", 0, MS_BIND, 0) < 0) return -1;
    return umount2(".env", MNT_DETACH);
}
int main(void) { return in_child(attempt, "lifted"); }
