//! Pid 1 of a container: this program once more, with a job's order instead of arguments.
//!
//! It makes sure that the container is closed, does what pid 1 of a native job does, reports, and stays until the kernel has seen
//! enough. **Invariant.** It ends, and with it the container, when the kernel's end of its socket closes. **Invariant.** It has one thread and
//! no handler but its own, so that no signal of the job's ends it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::process::DumpableBehavior;
use rustix::thread::LinkNameSpaceType;
use serde::{Deserialize, Serialize};

use super::link;
use crate::door;
use crate::fault::{At, Failure, Step};
use crate::figures::{PAUSE, RESUME};
use crate::inlet;
use crate::job;
use crate::landlock::{self, Landlock};
use crate::namespace;
use crate::order::{ActOrder, Bytes, JobOrder};
use crate::packet;
use crate::process;
use crate::resolver::Resolver;
use crate::seccomp::Filters;
use crate::spec::Profile;
use crate::sys;
use crate::terminal;

/// The only argument of a program that is to be a guest.
pub const GUEST: &str = "__room";

/// Where a container shows this program, and the folder with the socket.
pub(super) const PROGRAM: &str = "/.skep";
pub(super) const LINK_FOLDER: &str = "/.link";
pub(super) const SOCKET: &str = "socket";

const STREAMS_AND_REPORT: usize = 4;
const REPORT_FD: RawFd = 3;

/// Kernel to guest, with stdin, stdout, stderr, the report and the room's user namespace.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GuestOrder {
    pub(super) project: Bytes,
    /// The project, and binds that the job may write.
    pub(super) writable: Vec<Bytes>,
    pub(super) job: JobOrder,
}

/// Guest to kernel; `Started` brings the doors, the inlets, the terminal, and the resolver if the job [`asks_names`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum GuestReply {
    Started,
    Failed(Failure),
}

/// Runs one job as pid 1 of a container. The program calls it first in `main` when its only argument is [`GUEST`], and exits with
/// what it returns.
pub fn guest() -> i32 {
    // A handler that the program came with is a way for the job to end this process; see `sys::end_with` too.
    if sys::reset_signals(&[PAUSE.as_raw(), RESUME.as_raw()]).is_err() {
        return 1;
    }
    let Ok(socket) = link::connect().and_then(out_of_the_way) else { return 1 };
    let _ = process::wipe_memory_of_start("skep: room");
    let Ok(Some((order, mut files))) = packet::receive::<GuestOrder>(&socket) else { return 1 };
    let entered = closed().and_then(|()| {
        let line = order.job.terminal.map(terminal::open).transpose()?;
        if let Some((_, theirs)) = &line {
            terminal::streams(theirs, &mut files)?;
        }
        let users = arrange(files)?;
        socket.try_clone().and_then(sys::end_with).at(Step::Lifeline)?;
        let mut openings = door::open(&order.job.doors)?;
        openings.extend(inlet::open(order.job.inlets)?);
        openings.extend(line.map(|(ours, _)| ours));
        if asks_names(&order.job) {
            openings.push(Resolver::open()?.into());
        }
        join(&users)?;
        let fds: Vec<_> = openings.iter().map(AsFd::as_fd).collect();
        packet::send(&socket, &GuestReply::Started, &fds).at(Step::Socket)
    });
    if let Err(failure) = entered {
        let _ = packet::send(&socket, &GuestReply::Failed(failure), &[]);
        return 1;
    }
    let mut report = fs::File::from(sys::placed(REPORT_FD));
    let result = enter(&order).and_then(|()| job::act(&order.job));
    if job::tell(&mut report, result).is_err() {
        return 1;
    }
    drop(report);
    // The kernel reads what the container used, and then hangs up.
    let _: io::Result<Option<(bool, _)>> = packet::receive(&socket);
    0
}

/// Is this a room? Whatever the engine was told, pid 1 looks for itself.
fn closed() -> Result<(), Failure> {
    let refuse = |what: &str| Err(Failure::new(Step::Privileges, io::Error::from_raw_os_error(libc::EPERM)).about(what));
    let status = fs::read_to_string("/proc/self/status").at(Step::Privileges)?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default();
    let none = |name: &str| u64::from_str_radix(field(name), 16) == Ok(0);
    if rustix::process::getpid().as_raw_nonzero().get() != 1 {
        return refuse("the process is not the first of its own pid namespace");
    }
    if field("Threads") != "1" {
        return refuse("the process has a second thread");
    }
    if rustix::process::geteuid().is_root() || rustix::process::getegid().is_root() {
        return refuse("the user is root");
    }
    if !["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].into_iter().all(none) {
        return refuse("there are capabilities");
    }
    if field("NoNewPrivs") != "1" {
        return refuse("new privileges could be had");
    }
    if field("Seccomp") != "2" {
        return refuse("no system-call filter is loaded");
    }
    let interfaces = fs::read_dir("/sys/class/net").map(|entries| entries.flatten().filter(|entry| entry.file_name() != "lo").count());
    // Without /sys the list of the network namespace has to do.
    let others = interfaces.unwrap_or_else(|_| {
        let listed = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        listed.lines().skip(2).filter(|line| !line.trim_start().starts_with("lo:")).count()
    });
    if others > 0 {
        return refuse("there is a network interface");
    }
    let read_only = rustix::fs::statvfs("/").at(Step::RootFilesystem)?.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    if read_only { Ok(()) } else { refuse("the root can be written") }
}

/// A descriptor with a number that nothing is placed at.
fn out_of_the_way(fd: OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, REPORT_FD + 1)?)
}

/// Whether a job could ask for names: without internet sockets, which the engine's filter refuses, it cannot.
pub(super) fn asks_names(job: &JobOrder) -> bool {
    job.profile == Profile::StandardNet || !job.doors.is_empty() || job.inlets > 0
}

/// Enters the room's user namespace, whose limits are the room's, and gives up at once the rights that this brings.
fn join(users: &OwnedFd) -> Result<(), Failure> {
    rustix::thread::move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User)).at(Step::Watches)?;
    namespace::forswear().at(Step::Privileges)?;
    sys::drop_capabilities().at(Step::Privileges)?;
    closed()
}

/// Streams to 0, 1, 2 and the report to 3. The user namespace comes back.
fn arrange(mut files: Vec<OwnedFd>) -> Result<OwnedFd, Failure> {
    let users = files.pop().filter(|_| files.len() == STREAMS_AND_REPORT);
    let users = users.ok_or_else(|| Failure::new(Step::Descriptors, io::Error::from_raw_os_error(libc::EBADF)))?;
    let users = out_of_the_way(users).at(Step::Descriptors)?;
    let files = files.into_iter().map(out_of_the_way).collect::<io::Result<Vec<_>>>().at(Step::Descriptors)?;
    for (target, file) in files.iter().enumerate() {
        sys::place(file, target as RawFd, target < 3).at(Step::Descriptors)?;
    }
    Ok(users)
}

/// The rest of a native job's way in.
fn enter(order: &GuestOrder) -> Result<(), Failure> {
    let _ = rustix::thread::set_name(c"skep-room");
    let private: &[&str] = if matches!(order.job.act, ActOrder::Exec { .. }) {
        fs::create_dir_all(job::HOME).at(Step::JobMounts)?;
        landlock::PRIVATE
    } else {
        &[]
    };
    if order.job.terminal.is_some() {
        sys::take_terminal().at(Step::Privileges)?;
    }
    job::limits(&order.job.limits).at(Step::ResourceLimits)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Privileges)?;
    if let Some(landlock) = Landlock::find() {
        let writable = order.writable.iter().map(Bytes::path).chain(private.iter().map(Path::new));
        landlock.enclose(writable, order.job.profile).at(Step::Landlock)?;
    }
    let cwd = order.project.path().join(order.job.cwd.path());
    rustix::process::chdir(&cwd).map_err(|error| Failure::new(Step::WorkingDirectory, error).about(cwd.display()))?;
    Filters::compile().load(order.job.profile).at(Step::Seccomp)
}
