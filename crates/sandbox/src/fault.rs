//! What can go wrong with a room, where it went wrong, and how a person mends it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

/// Work in a room. An `async fn` is compiled by every crate that waits for it; behind a pointer it is compiled here alone.
pub type SandboxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SandboxError>> + Send + 'a>>;

/// The step of building a room or starting a job that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    Fork,
    Socket,
    Credentials,
    Namespaces,
    IdentityMap,
    IdmappedLower,
    WorkDirectory,
    RootFilesystem,
    SystemFolders,
    Devices,
    ProcFilesystem,
    Overlay,
    Binds,
    Masks,
    PivotRoot,
    Descriptors,
    Cgroup,
    JobNamespaces,
    JobMounts,
    Loopback,
    Doors,
    Inlets,
    Resolver,
    Terminal,
    Watches,
    ResourceLimits,
    Privileges,
    Lifeline,
    Landlock,
    Seccomp,
    WorkingDirectory,
    Spawn,
    Write,
    Delete,
    Move,
}

impl Step {
    /// Does it change a file of the project?
    pub(crate) fn changes(self) -> bool {
        matches!(self, Step::Write | Step::Delete | Step::Move)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Fork => "forking a process",
            Step::Socket => "making the control socket",
            Step::Credentials => "changing to the job's user",
            Step::Namespaces => "making user and mount namespaces",
            Step::IdentityMap => "mapping user and group ids",
            Step::IdmappedLower => "making an idmapped mount of the project",
            Step::WorkDirectory => "preparing the workspace directory",
            Step::RootFilesystem => "building the sandbox's root",
            Step::SystemFolders => "binding system folders",
            Step::Devices => "binding devices",
            Step::ProcFilesystem => "mounting /proc",
            Step::Overlay => "mounting the overlay over the project",
            Step::Binds => "binding a requested path",
            Step::Masks => "masking a path",
            Step::PivotRoot => "leaving the host's file tree",
            Step::Descriptors => "arranging descriptors",
            Step::Cgroup => "joining the cgroup",
            Step::JobNamespaces => "making the job's namespaces",
            Step::JobMounts => "mounting the job's private file systems",
            Step::Loopback => "starting the loopback interface",
            Step::Doors => "opening a door of the sandbox",
            Step::Inlets => "making an inlet of the sandbox",
            Step::Resolver => "opening the sandbox's resolver",
            Step::Terminal => "opening the sandbox's terminal",
            Step::Watches => "limiting the sandbox's inotify watches",
            Step::ResourceLimits => "setting resource limits",
            Step::Privileges => "dropping privileges",
            Step::Lifeline => "tying the job to its holder",
            Step::Landlock => "raising the second wall (Landlock)",
            Step::Seccomp => "loading the system-call filter",
            Step::WorkingDirectory => "entering the working directory",
            Step::Spawn => "starting the command",
            Step::Write => "writing the file",
            Step::Delete => "deleting the file",
            Step::Move => "moving the file",
        })
    }
}

/// A step that failed in another process, as it travels to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: i32,
    /// The path or name the step was busy with, when that says more than the step.
    pub(crate) about: Option<String>,
}

impl Failure {
    pub(crate) fn new(step: Step, error: impl Into<io::Error>) -> Failure {
        let errno = error.into().raw_os_error().unwrap_or(libc::EIO);
        Failure { step, errno, about: None }
    }

    pub(crate) fn about(mut self, about: impl fmt::Display) -> Failure {
        self.about = Some(about.to_string());
        self
    }
}

/// Names the step on the way out of a fallible system call.
pub(crate) trait At<T> {
    fn at(self, step: Step) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, error))
    }
}

/// Why no room, no job or no answer came about.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("the launcher must start before any other thread, but {threads} threads run")]
    Threads { threads: usize },
    #[error("sandbox setup failed while {step}{}: {cause}", show_about(.about))]
    Room {
        step: Step,
        about: Option<String>,
        #[source]
        cause: io::Error,
    },
    #[error("programs that share limits cannot run here: {why}")]
    Branch { why: &'static str },
    #[error("`{}` cannot be shown in a sandbox: {why}", .path.display())]
    Project { path: PathBuf, why: &'static str },
    #[error("`{program}` was not found in the sandbox")]
    NotFound { program: String },
    #[error("`{program}` cannot be executed in the sandbox: {cause}")]
    NotExecutable {
        program: String,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` cannot be changed: it or its folder belongs to another user", .path.display())]
    ForeignOwner { path: PathBuf },
    #[error("`{}` cannot be written: {cause}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` cannot be deleted: {cause}", .path.display())]
    Delete {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` cannot be moved to `{}`: {cause}", .from.display(), .to.display())]
    Move {
        from: PathBuf,
        to: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the workspace is full: it may hold {limit}")]
    Full { limit: crate::disk::Overfull },
    #[error("process {pid} of the sandbox did not stop")]
    Unpaused { pid: i32 },
    #[error("the job is not well formed: {why}")]
    BadJob { why: &'static str },
    #[error("no {engine} answers on this host: {why}")]
    NoEngine { engine: crate::oci::EngineKind, why: String },
    #[error("{engine} cannot show a container the project's overlay, which only root can mount")]
    NotRoot { engine: crate::oci::EngineKind },
    #[error("{engine} failed at {what}: {why}")]
    Engine { engine: crate::oci::EngineKind, what: &'static str, why: String },
    #[error("the {who} has ended")]
    Gone { who: &'static str },
    #[error("{what} failed: {cause}")]
    Io {
        what: &'static str,
        #[source]
        cause: io::Error,
    },
}

fn show_about(about: &Option<String>) -> String {
    about.as_ref().map(|name| format!(" (`{name}`)")).unwrap_or_default()
}

impl SandboxError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> SandboxError {
        move |cause| SandboxError::Io { what, cause }
    }

    /// Whether the disk had no space for it. Namespaces say the same when a user has too many.
    pub fn is_disk_full(&self) -> bool {
        let is_full = |cause: &io::Error| matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match self {
            SandboxError::Room { step: Step::Namespaces | Step::JobNamespaces | Step::Watches, .. } => false,
            SandboxError::Room { cause, .. } | SandboxError::Io { cause, .. } => is_full(cause),
            _ => false,
        }
    }

    /// What a person can do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SandboxError::Threads { .. } => Some("call Launcher::start first in main, before the async runtime"),
            SandboxError::Room { step, cause, .. } => room_hint(*step, cause.raw_os_error().unwrap_or(0)),
            SandboxError::NotFound { .. } => Some("sandboxes see /usr and the project; name other tool folders as binds of the workspace"),
            SandboxError::Project { .. } => Some("name another folder, or set SKEP_HOME outside of the project"),
            SandboxError::NotRoot { .. } => Some("say `runtime: native`, which needs no root, or run the kernel as root"),
            SandboxError::NoEngine { engine, .. } => Some(engine.install()),
            SandboxError::Full { .. } => Some("remove what is not needed, such as build output, or end the task"),
            SandboxError::Unpaused { .. } => Some("it waits for a disk or the network; try again, or cancel the task"),
            SandboxError::ForeignOwner { .. } => Some("give the file to the project's owner with chown"),
            _ => None,
        }
    }
}

fn room_hint(step: Step, errno: i32) -> Option<&'static str> {
    match (step, errno) {
        (Step::Namespaces | Step::IdentityMap, libc::EPERM | libc::EACCES) => Some(
            "allow user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 \
             kernel.unprivileged_userns_clone=1, where this host has them",
        ),
        (Step::Namespaces, libc::ENOSPC | libc::EUSERS) => Some("raise the limit: sysctl -w user.max_user_namespaces=10000"),
        (Step::IdmappedLower, libc::EINVAL) => {
            Some("the project's file system has no idmapped mounts; run skep as the project's owner instead of root")
        }
        (Step::Overlay, libc::EINVAL) => {
            Some("the project must have no mounts inside it, and the workspace's file system must keep user xattrs (ext4, xfs, btrfs)")
        }
        (Step::ProcFilesystem | Step::JobMounts, libc::EPERM) => {
            Some("the host's /proc is partly covered, as in a container; run with an unmasked /proc")
        }
        (Step::Watches, libc::EROFS) => Some("/proc/sys is read-only here, as in a container; run with a writable one"),
        _ => None,
    }
}

impl From<Failure> for SandboxError {
    fn from(failure: Failure) -> SandboxError {
        let Failure { step, errno, about } = failure;
        SandboxError::Room { step, about, cause: io::Error::from_raw_os_error(errno) }
    }
}
