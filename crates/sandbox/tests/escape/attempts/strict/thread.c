// tries: to have another thread
// inside strict: EPERM
// outside: started
#include "attempt.h"
#include <pthread.h>
static void *nothing(void *x) { return x; }
int main(void) {
    pthread_t thread;
    errno = pthread_create(&thread, 0, nothing, 0);
    return said(errno ? -1 : 0, "started");
}
