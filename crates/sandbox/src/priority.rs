//! Work that must not be in anybody's way.

/// Gives the calling thread what nobody else wants of processors and disk. A host that does not allow it leaves it as it is, and says so.
pub fn yield_to_all() -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: a plain system call about the calling thread, with a structure that lives as long as the call.
    let idle = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } == 0;
    // Class 3 of thread 0, which is the calling one: the disk when it is idle. (IOPRIO_WHO_PROCESS is 1, the class stands above bit 13.)
    // SAFETY: a plain system call with numbers alone.
    let quiet = unsafe { libc::syscall(libc::SYS_ioprio_set, 1, 0, 3 << 13) } == 0;
    idle && quiet
}
