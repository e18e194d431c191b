//! The launcher process itself.
//!
//! **Invariant.** One thread, no descriptors of the kernel's but its socket, no environment, its own session; it ends when the
//! kernel does, by signal or by the end of the socket, whichever comes first.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::fault::{At, Failure, Step};
use crate::figures::{PAUSE, RESUME};
use crate::holder;
use crate::inotify::Allowances;
use crate::mount;
use crate::namespace::{self, User};
use crate::order::{Bytes, LauncherOrder, LauncherReply, OpenOrder};
use crate::packet;
use crate::probe;
use crate::process;
use crate::seccomp::Filters;
use crate::steward;
use crate::sys;

/// The one descriptor that a launcher, and then a holder, keeps from its parent.
const LINK_FD: i32 = 3;

pub(super) fn main(link: OwnedFd, kernel: Pid, filters: &Filters) -> i32 {
    let link = match settle(link, kernel) {
        Ok(link) => link,
        Err(_) => return 1,
    };
    i32::from(serve(&link, filters).is_err())
}

fn settle(link: OwnedFd, kernel: Pid) -> io::Result<OwnedFd> {
    let link = keep_only(link)?;
    // The last two are for the pid 1 of a job: they wait until it can heed them.
    sys::reset_signals(&[libc::SIGCHLD, PAUSE.as_raw(), RESUME.as_raw()])?;
    process::wipe_memory_of_start("skep: launcher")?;
    rustix::thread::set_name(c"skep-launcher")?;
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(kernel) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(link)
}

/// Moves the socket to its place, nulls the standard streams and closes everything else.
fn keep_only(link: OwnedFd) -> io::Result<OwnedFd> {
    sys::place(&link, LINK_FD, false)?;
    // Its number is closed below, with all others.
    std::mem::forget(link);
    sys::close_from(LINK_FD + 1)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for stream in 0..3 {
        sys::place(&null, stream, true)?;
    }
    Ok(sys::placed(LINK_FD))
}

fn serve(link: &OwnedFd, filters: &Filters) -> io::Result<()> {
    let ended = sys::child_signal_fd()?;
    let mut watches = Allowances::default();
    loop {
        let mut polled = [PollFd::new(link, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (asked, mut drained) = (!polled[0].revents().is_empty(), [0; 128]);
        // Only wakes the loop up; whoever ended is reaped in any case.
        let _ = rustix::io::read(&ended, &mut drained);
        while let Ok(Some((pid, ..))) = sys::reap(-1, false) {
            watches.take_back(pid);
        }
        if !asked {
            continue;
        }
        match packet::receive(link)? {
            Some((LauncherOrder::Open(order), _)) => match open(&order, filters, &mut watches) {
                Ok((pid, pidfd, end)) => {
                    packet::send(link, &LauncherReply::Opened { pid }, &[pidfd.as_fd(), end.as_fd()])?;
                }
                Err(failure) => packet::send(link, &LauncherReply::Failed(failure), &[])?,
            },
            Some((LauncherOrder::Mount(order), _)) => {
                match mount::mount(&order).and_then(|uncovered| Ok((uncovered, steward(&order, filters, &mut watches)?))) {
                    Ok((uncovered, [users, steward])) => {
                        packet::send(link, &LauncherReply::Mounted(uncovered), &[users.as_fd(), steward.as_fd()])?;
                    }
                    Err(failure) => packet::send(link, &LauncherReply::Failed(failure), &[])?,
                }
            }
            Some((LauncherOrder::Mask(work, change), _)) => {
                let masked = mount::remask(work.path(), &change).map_or_else(LauncherReply::Failed, LauncherReply::Mounted);
                packet::send(link, &masked, &[])?;
            }
            Some((LauncherOrder::Start(argv), _)) => match start(&argv) {
                Ok(pidfd) => packet::send(link, &LauncherReply::Started, &[pidfd.as_fd()])?,
                Err(failure) => packet::send(link, &LauncherReply::Failed(failure), &[])?,
            },
            Some((LauncherOrder::Probe(scratch), _)) => {
                packet::send(link, &LauncherReply::Probed(probe::run(scratch.path(), filters)), &[])?;
            }
            None => return Ok(()),
        }
    }
}

/// Forks a holder and gives it one end of a socket of its own.
fn open(order: &OpenOrder, filters: &Filters, watches: &mut Allowances) -> Result<(i32, OwnedFd, OwnedFd), Failure> {
    let (kernel_end, holder_end) = packet::pair().at(Step::Socket)?;
    let launcher = rustix::process::getpid();
    let allowance = watches.next();
    let pid = sys::fork(|| match keep_only(holder_end) {
        Ok(link) => holder::main(order, &link, launcher, filters, allowance),
        Err(_) => 1,
    })
    .at(Step::Fork)?;
    watches.give(pid, allowance);
    let holder = Pid::from_raw(pid).ok_or_else(|| Failure::new(Step::Fork, io::Error::from_raw_os_error(libc::ESRCH)))?;
    let pidfd = rustix::process::pidfd_open(holder, PidfdFlags::empty()).at(Step::Fork)?;
    Ok((pid, pidfd, kernel_end))
}

/// What an engine does not give a mounted workspace: a user namespace for its containers, and a steward by the kernel's end of its socket.
fn steward(order: &OpenOrder, filters: &Filters, watches: &mut Allowances) -> Result<[OwnedFd; 2], Failure> {
    let mut start = || {
        let allowance = watches.next();
        let users = namespace::limited(User::of_jobs(), allowance).at(Step::Watches)?;
        let (kernel_end, steward_end) = packet::pair().at(Step::Socket)?;
        let launcher = rustix::process::getpid();
        let pid = sys::fork(|| match keep_only(steward_end) {
            Ok(link) => steward::main(&link, launcher, filters),
            Err(_) => 1,
        })
        .at(Step::Fork)?;
        watches.give(pid, allowance);
        Ok([users, kernel_end])
    };
    start().inspect_err(|_| mount::unmount(order.work.path()))
}

/// Starts a program of the host's as a child of this process, with which it ends.
fn start(argv: &[Bytes]) -> Result<OwnedFd, Failure> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Failure::new(Step::Fork, io::Error::from_raw_os_error(libc::EINVAL)));
    };
    let launcher = rustix::process::getpid();
    let pid = sys::fork(|| {
        let settled = keep_nothing().and_then(|()| {
            sys::reset_signals(&[])?;
            rustix::process::setsid()?;
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(rustix::process::getppid() == Some(launcher))
        });
        if !matches!(settled, Ok(true)) {
            return 1;
        }
        use std::os::unix::process::CommandExt;
        let environment = [("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/root")];
        let failed = std::process::Command::new(program.os()).args(arguments.iter().map(Bytes::os)).env_clear().envs(environment).exec();
        failed.raw_os_error().unwrap_or(1)
    })
    .at(Step::Fork)?;
    let started = Pid::from_raw(pid).ok_or_else(|| Failure::new(Step::Fork, io::Error::from_raw_os_error(libc::ESRCH)))?;
    rustix::process::pidfd_open(started, PidfdFlags::empty()).at(Step::Fork)
}

/// The standard streams are null already.
fn keep_nothing() -> io::Result<()> {
    sys::close_from(LINK_FD)
}
