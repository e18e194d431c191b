//! A job: pid 1 of its own namespaces, and the command beneath it.
//!
//! Pid 1 finishes closing the room from inside, gives up every right, loads the filter, starts the command, and buries whoever
//! ends. When the command has ended it kills the rest, and only when nothing else lives does it report. It never execs.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MoveMountFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

use crate::fault::{At, Failure, Step};
use crate::holder::{self, Holder};
use crate::landlock;
use crate::namespace;
use crate::order::{ActOrder, JobOrder, JobReport};
use crate::seccomp::Filters;
use crate::spec::Limits;
use crate::sys;

mod change;
mod exec;
mod write;

pub(crate) use exec::HOME;
pub(crate) use write::TEMPORARY_PREFIX;

/// Signals and timers of a job that may wait. A thread of an ordinary program has a few, the host gives a user tens of thousands.
const SIGNALS_MAX: u64 = 4096;
const STREAMS_AND_REPORT: usize = 4;
const REPORT_FD: RawFd = 3;
const LIFELINE_FD: RawFd = 4;

/// What a job has for itself besides the network and ipc namespaces, which its holder has made ahead for it alone.
pub(crate) const NAMESPACES: libc::c_int = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;

/// Carries out one order as pid 1. `files` are stdin, stdout, stderr, the report, and the cgroups to join.
///
/// The exit code is 0 only when the report was written; otherwise the holder speaks for the job.
pub(crate) fn main(holder: &Holder, filters: &Filters, order: &JobOrder, files: Vec<OwnedFd>) -> i32 {
    let _ = rustix::thread::set_name(c"skep-room");
    if arrange(holder, &files).is_err() {
        return 1;
    }
    // The cgroup files lie above the arranged descriptors and are closed with everything else, not by their owners.
    let cgroups: Vec<RawFd> = files.into_iter().skip(STREAMS_AND_REPORT).map(IntoRawFd::into_raw_fd).collect();
    let mut report = fs::File::from(sys::placed(REPORT_FD));
    let result = enter(holder, filters, order, &cgroups).and_then(|()| act(order));
    i32::from(tell(&mut report, result).is_err())
}

/// Does what the job is for, in the project's folder as pid 1.
pub(crate) fn act(order: &JobOrder) -> Result<JobReport, Failure> {
    match &order.act {
        ActOrder::Exec { argv } => exec::run(argv, &order.env, order.terminal.is_some()),
        ActOrder::Write { path, mode } => write::run(path.path(), *mode).map(|()| JobReport::Written),
        ActOrder::Delete { path } => change::delete(path.path()).map(|()| JobReport::Written),
        ActOrder::Move { from, to } => change::rename(from.path(), to.path()).map(|()| JobReport::Written),
    }
}

pub(crate) fn tell(report: &mut fs::File, result: Result<JobReport, Failure>) -> io::Result<()> {
    report.write_all(&serde_json::to_vec(&result.unwrap_or_else(JobReport::Failed))?)
}

/// Streams to 0, 1, 2, the report to 3, the holder's pidfd to 4.
fn arrange(holder: &Holder, files: &[OwnedFd]) -> io::Result<()> {
    if files.len() < STREAMS_AND_REPORT || files.iter().any(|file| file.as_raw_fd() <= LIFELINE_FD) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    for (target, file) in files.iter().take(STREAMS_AND_REPORT).enumerate() {
        sys::place(file, target as RawFd, target < 3)?;
    }
    sys::place(&holder.lifeline, LIFELINE_FD, false)
}

/// Closes the room around this process. After it there is no way back.
fn enter(holder: &Holder, filters: &Filters, order: &JobOrder, cgroups: &[RawFd]) -> Result<(), Failure> {
    for cgroup in cgroups {
        rustix::io::write(sys::placed(*cgroup), b"0").at(Step::Cgroup)?;
    }
    sys::close_from(LIFELINE_FD + 1).at(Step::Descriptors)?;
    // Changing a file runs no foreign program that could look at them.
    let private: &[&str] = if matches!(order.act, ActOrder::Exec { .. }) {
        mounts(holder, &order.limits)?;
        landlock::PRIVATE
    } else {
        &[]
    };
    // The session is the holder's, which has no terminal. One of its own would put every job into a scheduling group of its own
    // (autogroup), and on a busy machine a new group waits milliseconds for its first turn.
    if order.terminal.is_some() {
        sys::take_terminal().at(Step::Privileges)?;
    } else {
        rustix::process::setpgid(None, None).at(Step::Privileges)?;
    }
    limits(&order.limits).at(Step::ResourceLimits)?;
    sys::drop_capabilities().at(Step::Privileges)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Privileges)?;
    if let Some(landlock) = &holder.landlock {
        let writable = holder.room.writable.iter().map(PathBuf::as_path).chain(private.iter().map(Path::new));
        landlock.enclose(writable, order.profile).at(Step::Landlock)?;
    }

    // The last change of credentials is behind us. A holder that ended before this line sent no signal, so ask.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Step::Lifeline)?;
    if holder::has_ended(&sys::placed(LIFELINE_FD)).at(Step::Lifeline)? {
        sys::exit(1);
    }
    let cwd = holder.room.project.join(order.cwd.path());
    rustix::process::chdir(&cwd).map_err(|error| Failure::new(Step::WorkingDirectory, error).about(cwd.display()))?;
    filters.load(order.profile).at(Step::Seccomp)
}

/// File systems that no other job sees.
fn mounts(holder: &Holder, limits: &Limits) -> Result<(), Failure> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("proc", "/proc", "proc", flags | MountFlags::NOEXEC, None).at(Step::ProcFilesystem)?;
    // What lies under /tmp is carried over the new /tmp.
    let carry = |path: &PathBuf| namespace::detached(path, true).map(|mount| (path.clone(), path.is_dir(), mount));
    let carried = holder.room.in_tmp.iter().map(carry).collect::<io::Result<Vec<_>>>().at(Step::JobMounts)?;
    for (path, bytes) in [(c"/tmp", limits.tmp_bytes), (c"/dev/shm", limits.shm_bytes)] {
        rustix::mount::mount("tmpfs", path, "tmpfs", flags, own_memory(bytes).as_c_str()).at(Step::JobMounts)?;
    }
    for (path, is_folder, mount) in carried {
        mount_point(&path, is_folder).at(Step::JobMounts)?;
        rustix::mount::move_mount(&mount, "", rustix::fs::CWD, &path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).at(Step::JobMounts)?;
    }
    fs::create_dir(exec::HOME).at(Step::JobMounts)
}

/// Options of a file system in memory that holds so much.
pub(crate) fn own_memory(bytes: u64) -> CString {
    // An empty file takes memory that no size counts; the smallest that takes a page is a fair share.
    let files = bytes / 4096;
    CString::new(format!("mode=1777,size={bytes},nr_inodes={files}")).unwrap_or_default()
}

/// Something to mount on; what a mount before it brought along is there already.
fn mount_point(path: &Path, is_folder: bool) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if is_folder {
        return fs::create_dir_all(path);
    }
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    fs::File::create(path).map(drop)
}

pub(crate) fn limits(limits: &Limits) -> io::Result<()> {
    // No single file can be more than all of them together.
    let file_bytes = [limits.file_bytes, limits.disk_bytes].into_iter().flatten().min();
    let both = |value| Rlimit { current: value, maximum: value };
    let mut wanted = vec![
        // Too small for any file, and the one value for which the host does not run its handler of crashes either. See core(5).
        (Resource::Core, Some(1)),
        (Resource::Nofile, Some(limits.open_files)),
        (Resource::Nproc, Some(u64::from(limits.pids))),
        // Locked memory escapes the page cache's accounting; nothing ordinary needs more than this.
        (Resource::Memlock, Some(8 << 20)),
        // Counted for a user, whatever room its processes are in: who queues all that there may be stops everybody's timers.
        (Resource::Sigpending, Some(SIGNALS_MAX)),
    ];
    for (resource, value) in [(Resource::Data, limits.data_bytes), (Resource::Fsize, file_bytes), (Resource::Cpu, limits.cpu_seconds)] {
        if value.is_some() {
            wanted.push((resource, value));
        }
    }
    for (resource, value) in wanted {
        // Only downward: the host's own limits hold for rooms too, and raising them takes a right that even root may lack.
        let held = rustix::process::getrlimit(resource).maximum;
        let value = match (value, held) {
            (Some(value), Some(held)) => Some(value.min(held)),
            (value, held) => value.or(held),
        };
        rustix::process::setrlimit(resource, both(value))?;
    }
    Ok(())
}
