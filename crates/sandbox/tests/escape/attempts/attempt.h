/* What C attempts share. An attempt says one line: what it won, or the name of the error that it got. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The outcome of a system call. */
static int said(long result, const char *won) {
    puts(result < 0 ? strerrorname_np(errno) : won);
    fflush(stdout);
    return 0;
}

/* Where something is that the runner has put on the host; attempts/README.md has the list. */
static const char *told(const char *name) { return getenv(name); }
static int victim(void) { return atoi(told("VICTIM")); }
static int stranger(void) { return atoi(told("STRANGER")); }

/* Makes a call that may change its caller in a child, and gives what came of it. */
static int in_child(long (*attempt)(void), const char *won) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        said(attempt(), won);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? printf("signal %d\n", WTERMSIG(status)), 0 : 0;
}
