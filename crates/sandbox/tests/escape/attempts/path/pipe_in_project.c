// tries: to write into a pipe of the project at whose other end a program of the host reads
// inside: ENXIO
// outside: written
#include "attempt.h"
int main(void) {
    int pipe = open("fifo", O_WRONLY | O_NONBLOCK);
    return said(pipe < 0 ? pipe : write(pipe, "x", 1), "written");
}
