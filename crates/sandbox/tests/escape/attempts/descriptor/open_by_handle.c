// tries: to open a file of the file system beneath by its number, past every path
// inside: EPERM
// outside root: opened
#include "attempt.h"
int main(void) {
    struct { struct file_handle head; char space[128]; } handle = {.head = {.handle_bytes = 128}};
    int mount;
    if (name_to_handle_at(AT_FDCWD, "/usr/bin/env", &handle.head, &mount, 0) < 0) return said(-1, "");
    return said(open_by_handle_at(open("/usr", O_RDONLY), &handle.head, O_RDONLY), "opened");
}
