// tries: to make threads without end
// limits: pids=40
// inside: EAGAIN within 40
// outside: 200 threads
#include "attempt.h"
#include <pthread.h>
static void *wait_for_ever(void *unused) { for (;;) pause(); }
int main(void) {
    pthread_t thread;
    for (int i = 1; i <= 200; i++) {
        int error = pthread_create(&thread, 0, wait_for_ever, 0);
        if (error) return printf("%s within %d\n", strerrorname_np(error), i <= 40 ? 40 : i), 0;
    }
    return said(0, "200 threads");
}
