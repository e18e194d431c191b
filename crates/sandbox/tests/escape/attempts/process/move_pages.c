// tries: to learn and to move where the memory of the process that closed the room lies
// inside: EPERM
// outside: told
#include "attempt.h"
int main(void) {
    void *page = (void *)0x1000;
    int status;
    return said(syscall(SYS_move_pages, victim(), 1, &page, 0, &status, 0), "told");
}
