// tries: to use up the memory in a thread that has outlived the first one, so that its process looks dead
// limits: memory=32m wall=60
// inside: out of memory
// inside podman: out of memory | signal 9
// outside: all of it
#include "attempt.h"
#include <pthread.h>
static void *take(void *nothing) {
    usleep(100000);
    char *all = mmap(0, 100 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(all, 1, 100 << 20);
    if (victim() == 1) sleep(100);
    exit(said(0, "all of it"));
}
int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, take, NULL);
    pthread_exit(NULL);
}
