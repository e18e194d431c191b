//! Pid 1 of a container: this program once more, with a job's order instead of arguments.
//!
//! It makes sure that the container is closed, does what pid 1 of a native job does, reports, and stays until the kernel has seen
//! enough. **Invariant.** It ends, and with it the container, when the kernel's end of its socket closes.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::process::DumpableBehavior;
use serde::{Deserialize, Serialize};

use super::link;
use crate::door;
use crate::fault::{At, Failure, Step};
use crate::inlet;
use crate::job;
use crate::landlock::{self, Landlock};
use crate::order::{ActOrder, Bytes, SpawnOrder};
use crate::packet;
use crate::process;
use crate::seccomp::Filters;
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

/// Kernel to guest, with stdin, stdout, stderr and the report.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GuestOrder {
    pub(super) project: Bytes,
    /// The project, and binds that the job may write.
    pub(super) writable: Vec<Bytes>,
    pub(super) job: SpawnOrder,
}

/// Guest to kernel; `Started` brings the doors, the inlets and the terminal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum GuestReply {
    Started,
    Failed(Failure),
}

/// Runs one job as pid 1 of a container. The program calls it first in `main` when its only argument is [`GUEST`], and exits with
/// what it returns.
pub fn guest() -> i32 {
    let Ok(socket) = link::connect().and_then(out_of_the_way) else { return 1 };
    let _ = process::wipe_memory_of_start("skep: room");
    let Ok(Some((order, mut files))) = packet::receive::<GuestOrder>(&socket) else { return 1 };
    let entered = closed().and_then(|()| {
        let line = order.job.terminal.map(terminal::open).transpose()?;
        if let Some((_, theirs)) = &line {
            terminal::streams(theirs, &mut files)?;
        }
        arrange(files)?;
        watch(&socket)?;
        let mut openings = door::open(&order.job.doors)?;
        openings.extend(inlet::open(order.job.inlets)?);
        openings.extend(line.map(|(ours, _)| ours));
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
    loop {
        std::thread::park();
    }
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

/// Streams to 0, 1, 2 and the report to 3.
fn arrange(files: Vec<OwnedFd>) -> Result<(), Failure> {
    if files.len() != STREAMS_AND_REPORT {
        return Err(Failure::new(Step::Descriptors, io::Error::from_raw_os_error(libc::EBADF)));
    }
    let files = files.into_iter().map(out_of_the_way).collect::<io::Result<Vec<_>>>().at(Step::Descriptors)?;
    for (target, file) in files.iter().enumerate() {
        sys::place(file, target as RawFd, target < 3).at(Step::Descriptors)?;
    }
    Ok(())
}

/// Ends this process with the kernel's end of the socket. A thread, because pid 1 waits for its children meanwhile.
fn watch(socket: &OwnedFd) -> Result<(), Failure> {
    let lifeline = socket.try_clone().at(Step::Lifeline)?;
    let wait = move || {
        let _: io::Result<Option<(bool, _)>> = packet::receive(&lifeline);
        sys::exit(1)
    };
    let lifeline = std::thread::Builder::new().name("lifeline".to_owned()).stack_size(256 * 1024);
    // A signal that the job sends while pid 1 has them blocked, as it has during a spawn, would find this thread and end both.
    sys::deaf(|| lifeline.spawn(wait)).at(Step::Lifeline)?;
    Ok(())
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
