//! System calls that have no safe wrapper elsewhere.
//!
//! Each function is safe to call from a single-threaded process, which is all that calls those that say so.

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::thread::{CapabilitySet, CapabilitySets};
use tokio::io::unix::AsyncFd;

use crate::figures::{PAUSE, RESUME};
use crate::spec::Usage;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Ends this process at once: no destructors, no exit handlers, which belong to the process it was forked from.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` takes any code and does not return.
    unsafe { libc::_exit(code) }
}

/// Runs `child` in a new process and never returns from it there. The caller must be single-threaded.
pub(crate) fn fork(child: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: the process has one thread (the launcher asserts it before the first fork and nothing under it makes threads),
    // so the child's copy of memory is consistent.
    let pid = check(unsafe { libc::fork() }.into())?;
    if pid == 0 {
        exit(contain(child));
    }
    Ok(pid as i32)
}

/// Runs `child` in new namespaces. The caller must be single-threaded.
pub(crate) fn clone_into(flags: libc::c_int, child: impl FnOnce() -> i32) -> io::Result<(i32, OwnedFd)> {
    let mut pidfd: RawFd = -1;
    // SAFETY: `clone_args` is plain integers, for which zero is valid.
    let mut args: libc::clone_args = unsafe { mem::zeroed() };
    args.flags = flags as u64 | libc::CLONE_PIDFD as u64;
    args.pidfd = ptr::from_mut(&mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM and a stack this is a fork; the caller has one thread; `args` outlives the call.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone3, ptr::from_mut(&mut args), mem::size_of_val(&args)) })?;
    if pid == 0 {
        exit(contain(child));
    }
    // SAFETY: on success the kernel has stored a new descriptor that nobody else owns.
    Ok((pid as i32, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// A panic must not unwind into the frames that were copied from the parent.
fn contain(child: impl FnOnce() -> i32) -> i32 {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(70)
}

/// Closes every descriptor from `first` upward, whoever thinks to own it. Only for a fresh child that kept none of them.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    // SAFETY: the caller has abandoned all owners of these descriptors: it is a forked child that never returns to them.
    check(unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, libc::c_uint::MAX, 0) }).map(drop)
}

/// Makes `target` a copy of `fd`, replacing what was there; kept over exec only when `keep`.
pub(crate) fn place(fd: impl AsFd, target: RawFd, keep: bool) -> io::Result<()> {
    if fd.as_fd().as_raw_fd() == target {
        let flags = if keep { rustix::io::FdFlags::empty() } else { rustix::io::FdFlags::CLOEXEC };
        return Ok(rustix::io::fcntl_setfd(fd, flags)?);
    }
    let flags = if keep { 0 } else { libc::O_CLOEXEC };
    // SAFETY: descriptors are integers; whoever owned `target` is a frame of the parent's that this child abandoned.
    check(unsafe { libc::dup3(fd.as_fd().as_raw_fd(), target, flags) }.into()).map(drop)
}

/// Takes ownership of a descriptor by its number, in a child that has abandoned every other owner of it.
pub(crate) fn placed(target: RawFd) -> OwnedFd {
    // SAFETY: owners are frames that were copied from the parent and never run on here; see the callers.
    unsafe { OwnedFd::from_raw_fd(target) }
}

/// Attributes of a mount to set; see mount_setattr(2).
pub(crate) fn mount_setattr(mount: impl AsFd, recursive: bool, set: u64, userns: Option<&OwnedFd>) -> io::Result<()> {
    // SAFETY: `mount_attr` is plain integers, for which zero is valid.
    let mut attr: libc::mount_attr = unsafe { mem::zeroed() };
    attr.attr_set = set;
    if let Some(userns) = userns {
        attr.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attr.userns_fd = userns.as_raw_fd() as u64;
    }
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string, `attr` outlives the call and its size is given.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            ptr::from_ref(&attr),
            mem::size_of_val(&attr),
        )
    })
    .map(drop)
}

/// All signals back to their default action and none blocked but `blocked`.
pub(crate) fn reset_signals(blocked: &[i32]) -> io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: SIG_DFL is a valid action for any signal; those that cannot be changed answer EINVAL, which is fine.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let set = signal_set(blocked);
    // SAFETY: `set` is initialised and outlives the call; the old mask is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &set, ptr::null_mut()) }.into()).map(drop)
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain integers; sigemptyset initialises it in any case, and sigaddset takes any number.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        set
    }
}

/// Installs a handler that no other signal interrupts. It runs on the stack of whom it interrupts: one that is set aside for handlers and too
/// small for them has Linux end the process.
fn handle(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: sigaction is plain data, for which zero is valid; the callers' handlers have the signature that `flags` ask for.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        check(libc::sigaction(signal, &action, ptr::null_mut()).into()).map(drop)
    }
}

/// Ends this process as soon as the other end of the socket is closed or says anything, whatever it does at that moment.
///
/// By a signal, not by a thread: Linux shields a first process from the signals of its own namespace, but takes one that the first thread
/// has blocked, as it has during a spawn, to any other thread that has not, and ends both.
pub(crate) fn end_with(socket: OwnedFd) -> io::Result<()> {
    static LIFELINE: AtomicI32 = AtomicI32::new(-1);
    extern "C" fn look(_: libc::c_int) {
        let mut polled = libc::pollfd { fd: LIFELINE.load(Ordering::Relaxed), events: libc::POLLIN, revents: 0 };
        // SAFETY: poll and _exit are safe in a handler, `polled` is a live local, and errno is put back.
        unsafe {
            let errno = *libc::__errno_location();
            if libc::poll(&mut polled, 1, 0) > 0 {
                libc::_exit(1);
            }
            *libc::__errno_location() = errno;
        }
    }
    let socket = socket.into_raw_fd();
    LIFELINE.store(socket, Ordering::Relaxed);
    handle(libc::SIGIO, look as *const () as libc::sighandler_t, 0)?;
    // SAFETY: both calls take integers; the descriptor is never closed.
    check(unsafe { libc::fcntl(socket, libc::F_SETOWN, libc::getpid()) }.into())?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(socket, libc::F_SETFL, libc::O_ASYNC) }.into())?;
    // Who closed it before that sent no signal.
    look(libc::SIGIO);
    Ok(())
}

/// Makes pid 1 of a job stop and go on with all it started when it is told so from outside its namespace.
pub(crate) fn obey_pauses() -> io::Result<()> {
    extern "C" fn heed(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: with SA_SIGINFO the kernel gives a valid siginfo, and one of SI_USER has a sender.
        let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
        // Only a sender in an outer namespace has no pid here, and SI_USER cannot be forged.
        if code == libc::SI_USER && sender == 0 {
            let all = if signal == PAUSE.as_raw() { libc::SIGSTOP } else { libc::SIGCONT };
            // SAFETY: kill is safe in a handler, and -1 from pid 1 names only the job's own processes.
            unsafe { libc::kill(-1, all) };
        }
    }
    for signal in [PAUSE.as_raw(), RESUME.as_raw()] {
        handle(signal, heed as *const () as libc::sighandler_t, libc::SA_SIGINFO)?;
    }
    let set = signal_set(&[PAUSE.as_raw(), RESUME.as_raw()]);
    // SAFETY: `set` is initialised and outlives the call; the old mask is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut()) }.into()).map(drop)
}

/// A descriptor that becomes readable when a child ends; SIGCHLD must be blocked.
pub(crate) fn child_signal_fd() -> io::Result<OwnedFd> {
    let set = signal_set(&[libc::SIGCHLD]);
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = check(unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) }.into())?;
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// One ended child: pid, raw wait status, what it and its collected children used.
pub(crate) fn reap(pid: i32, block: bool) -> io::Result<Option<(i32, i32, Usage)>> {
    let mut status = 0;
    // SAFETY: rusage is plain integers, for which zero is valid.
    let mut rusage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: both pointers are to live locals.
    let mut wait = || check(unsafe { libc::wait4(pid, &mut status, if block { 0 } else { libc::WNOHANG }, &mut rusage) }.into());
    let got = loop {
        match wait() {
            // A job can send signals to its pid 1.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    Ok((got != 0).then(|| (got as i32, status, usage(&rusage))))
}

/// Whether two threads of whatever processes have one table of open files. `false` also where that cannot be told.
pub(crate) fn share_files(one: i32, other: i32) -> bool {
    const FILES: libc::c_int = 2;
    // SAFETY: kcmp takes integers.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, FILES, 0, 0) == 0 }
}

/// A copy of a descriptor of another process or thread, over which this one has the right to trace.
pub(crate) fn copied_descriptor(of: i32, descriptor: RawFd) -> io::Result<OwnedFd> {
    const THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: takes integers. Older kernels know only the first thread of a process.
    let open = |flags: libc::c_int| check(unsafe { libc::syscall(libc::SYS_pidfd_open, of, flags) });
    let pidfd = open(THREAD).or_else(|_| open(0))?;
    // SAFETY: the descriptor is new and nobody else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd as RawFd) };
    // SAFETY: takes integers.
    let copy = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), descriptor, 0) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(copy as RawFd) })
}

/// What this process's collected children used.
pub(crate) fn children_usage() -> Usage {
    // SAFETY: rusage is plain integers; the pointer is to a live local; RUSAGE_CHILDREN cannot fail.
    unsafe {
        let mut rusage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut rusage);
        usage(&rusage)
    }
}

fn usage(rusage: &libc::rusage) -> Usage {
    let ms = |time: libc::timeval| time.tv_sec as u64 * 1000 + time.tv_usec as u64 / 1000;
    Usage { user_ms: ms(rusage.ru_utime), system_ms: ms(rusage.ru_stime), resident_bytes_max: rusage.ru_maxrss as u64 * 1024 }
}

/// Sends SIGKILL to every process that this one can see, but itself: all of a pid namespace when pid 1 calls it.
pub(crate) fn kill_all_others() {
    // SAFETY: kill takes any numbers. The caller is pid 1 of a job, so -1 names only that job's processes.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Gives up every capability for good.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// Raises the loopback interface of this network namespace.
pub(crate) fn raise_loopback() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: ifreq is plain bytes, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which is live.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, ptr::from_ref(&request)) }.into()).map(drop)
}

/// Loads one filter for this process; no_new_privs must be set.
pub(crate) fn load_filter(program: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<()> {
    let fprog = libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program outlives the call, its length is given, and the kernel only reads it.
    let thread = check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, ptr::from_ref(&fprog)) })?;
    // Above zero it names a thread that another filter keeps from taking this one.
    if thread == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBUSY)) }
}

/// The version of Landlock that this kernel speaks.
pub(crate) fn landlock_abi() -> io::Result<i64> {
    const ASK_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag no attributes are read, so the null pointer and the zero size are as documented.
    check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<libc::c_void>(), 0, ASK_VERSION) })
}

/// A new ruleset that handles these rights. An older kernel takes the longer attributes as long as their tail is zero.
pub(crate) fn landlock_ruleset(files: u64, net: u64, scopes: u64) -> io::Result<OwnedFd> {
    let attributes = [files, net, scopes];
    let used = if scopes != 0 { 3 } else { 1 + usize::from(net != 0) };
    // SAFETY: the attributes are three 64-bit fields in this order, they outlive the call and no more than their size is given.
    let fd = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attributes.as_ptr(), used * mem::size_of::<u64>(), 0) })?;
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Allows rights on what lies beneath an open path.
pub(crate) fn landlock_allow(ruleset: &OwnedFd, place: RawFd, rights: u64) -> io::Result<()> {
    #[repr(C, packed)]
    struct PathBeneath {
        allowed_access: u64,
        parent_fd: i32,
    }
    const PATH_BENEATH: libc::c_int = 1;
    let rule = PathBeneath { allowed_access: rights, parent_fd: place };
    // SAFETY: the rule has the layout that its type asks for and outlives the call.
    check(unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), PATH_BENEATH, ptr::from_ref(&rule), 0) }).map(drop)
}

/// Puts this process under a ruleset, for good; no_new_privs must be set.
pub(crate) fn landlock_restrict(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes two integers.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) }).map(drop)
}

/// A descriptor of the process at the other end of a unix socket, which names no other when that one is gone. `None` where the kernel
/// cannot give it.
pub fn peer_pidfd(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut fd: libc::c_int = -1;
    let mut length = mem::size_of::<libc::c_int>() as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the value and its length outlive the call, and the length is that of the value.
    let got = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERPIDFD, ptr::from_mut(&mut fd).cast(), &raw mut length) };
    match check(got.into()) {
        // SAFETY: the descriptor is new and nobody else owns it.
        Ok(_) if fd >= 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes standard input the terminal of a new session, with this process's group in its foreground.
pub(crate) fn take_terminal() -> io::Result<()> {
    match rustix::process::setsid() {
        // Pid 1 of a container leads a session already. Who leads only a group is refused by the next line.
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
}

/// Starts a program with default signals, in its own process group unless it is to be in the foreground of this one's terminal.
/// `Err` means that no program was started.
///
/// posix_spawn shares memory until exec, so nothing is copied for a process that is about to replace itself.
pub(crate) fn spawn(program: &CStr, argv: &[CString], env: &[CString], own_group: bool) -> io::Result<i32> {
    let pointers = |strings: &[CString]| -> Vec<*mut libc::c_char> {
        strings.iter().map(|string| string.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    let mut pid = 0;
    // SAFETY: the attribute object is initialised before use and destroyed after; the pointer arrays end in null and their
    // strings outlive the call; posix_spawn only reads them.
    let error = unsafe {
        let mut attr = mem::zeroed();
        libc::posix_spawnattr_init(&mut attr);
        let group = if own_group { libc::POSIX_SPAWN_SETPGROUP } else { 0 };
        libc::posix_spawnattr_setflags(&mut attr, (group | libc::POSIX_SPAWN_SETSIGMASK) as libc::c_short);
        libc::posix_spawnattr_setpgroup(&mut attr, 0);
        libc::posix_spawnattr_setsigmask(&mut attr, &signal_set(&[]));
        let error = libc::posix_spawn(&mut pid, program.as_ptr(), ptr::null(), &attr, argv.as_ptr(), env.as_ptr());
        libc::posix_spawnattr_destroy(&mut attr);
        error
    };
    if error == 0 { Ok(pid) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Lets the async runtime watch a descriptor.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open file for as long as it lives, and the registration owns it.
    unsafe { AsyncFd::register(fd) }.map_err(|error| error.into_parts().1)
}

/// Overwrites a range of this process's own memory, such as the initial environment.
///
/// # Safety
/// `start..end` must be mapped writable and no live Rust value may lie in it.
pub(crate) unsafe fn overwrite(start: usize, end: usize, with: &[u8]) {
    let length = end.saturating_sub(start);
    let used = with.len().min(length.saturating_sub(1));
    // SAFETY: by this function's contract; `used` is below `length`.
    unsafe {
        ptr::write_bytes(start as *mut u8, 0, length);
        ptr::copy_nonoverlapping(with.as_ptr(), start as *mut u8, used);
    }
}

/// Forgets the environment, so that nothing reads the overwritten strings.
pub(crate) fn clear_environment() {
    // SAFETY: the process has one thread, so nobody reads `environ` meanwhile.
    unsafe { libc::clearenv() };
}
