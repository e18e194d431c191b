// tries: to take a message out of a queue of the host
// inside: ENOENT
// outside: told
#include "attempt.h"
#include <mqueue.h>
int main(void) {
    char name[80], text[64];
    snprintf(name, sizeof name, "/%s", told("SHARED"));
    mqd_t queue = mq_open(name, O_RDWR | O_NONBLOCK);
    if (queue < 0) return said(-1, "");
    return said(mq_receive(queue, text, sizeof text, 0), "told");
}
