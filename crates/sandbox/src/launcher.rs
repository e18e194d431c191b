//! The kernel's side of the launcher.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::cgroup::{Cgroups, JobBranch, SharedLimits};
use crate::epoll::EpollGauge;
use crate::fault::{At, Failure, SandboxError, SandboxFuture, Step};
use crate::order::{BindOrder, Bytes, LauncherOrder, LauncherReply, MaskOrder, OpenOrder, ShareOrder, Uncovered};
use crate::packet;
use crate::probe::Check;
use crate::process::{self, Identity};
use crate::seccomp::Filters;
use crate::share;
use crate::spec::{HostShare, WorkspaceSpec};
use crate::sys;
use crate::workspace::{Places, Workspace};

mod serve;

/// The one process that rooms come from. Dropping it ends it, and with it every workspace.
#[derive(Debug)]
pub struct Launcher {
    link: Arc<Mutex<OwnedFd>>,
    pid: i32,
    pidfd: OwnedFd,
    cgroups: Arc<Cgroups>,
    epolls: Arc<EpollGauge>,
}

impl Launcher {
    /// Forks the launcher. Must come first in `main`, on the thread that lives as long as the process: before the async
    /// runtime, before anything that makes threads, and before secrets are read.
    pub fn start() -> Result<Launcher, SandboxError> {
        let threads = process::threads().map_err(SandboxError::io("reading /proc/self/status"))?;
        if threads != 1 {
            return Err(SandboxError::Threads { threads });
        }
        let filters = Filters::compile();
        let epolls = Arc::new(EpollGauge::open().at(Step::Fork)?);
        let (here, there) = packet::pair().at(Step::Socket)?;
        let kernel = rustix::process::getpid();
        let pid = sys::fork(|| serve::main(there, kernel, &filters)).at(Step::Fork)?;
        let pidfd = Pid::from_raw(pid)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
            .and_then(|pid| Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
            .at(Step::Fork)?;
        Ok(Launcher { link: Arc::new(Mutex::new(here)), pid, pidfd, cgroups: Arc::new(Cgroups::find()), epolls })
    }

    /// The launcher's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Opens a workspace: makes its directories, mounts its overlay, closes its room. An `upper/` that is there is used again.
    pub fn open(&self, spec: WorkspaceSpec) -> SandboxFuture<'_, Workspace> {
        Box::pin(self.open_room(spec))
    }

    async fn open_room(&self, spec: WorkspaceSpec) -> Result<Workspace, SandboxError> {
        let order = prepare(spec)?;
        let places = Places::of(&order);
        let (reply, mut fds) = self.ask(LauncherOrder::Open(order)).await?;
        let LauncherReply::Opened { pid } = reply else { return Err(unexpected(reply)) };
        let (Some(link), Some(pidfd)) = (fds.pop(), fds.pop()) else { return Err(SandboxError::Gone { who: "launcher" }) };
        let workspace = Workspace::join(link, pidfd, pid, places, (Arc::clone(&self.cgroups), Arc::clone(&self.epolls))).await?;
        remember(workspace.work(), pid)?;
        Ok(workspace)
    }

    /// Makes a branch: jobs whose [`crate::JobSpec`] names it share these limits, and those of the branch that it lies in.
    pub fn branch(&self, limits: &SharedLimits, within: Option<&Arc<JobBranch>>) -> Result<Arc<JobBranch>, SandboxError> {
        self.cgroups.open_branch(limits, within).map(Arc::new).map_err(SandboxError::io("making the cgroup of a branch"))
    }

    /// Says which of these limits no cgroup of this host can hold for a branch: `memory` or `cpu`.
    pub fn cannot_share(&self, limits: &SharedLimits) -> Option<&'static str> {
        self.cgroups.cannot_share(limits)
    }

    /// What makes mounts for container engines, and starts one.
    pub(crate) fn errand(&self) -> Errand {
        Errand { link: Arc::clone(&self.link), epolls: Arc::clone(&self.epolls) }
    }

    /// What this host supports, tried for real. `scratch` is a directory beside which workspaces will lie: whether an overlay
    /// can be built depends on the file system.
    pub async fn probe(&self, scratch: &Path) -> Result<Vec<Check>, SandboxError> {
        match self.ask(LauncherOrder::Probe(scratch.to_owned().into())).await?.0 {
            LauncherReply::Probed(checks) => Ok(checks),
            other => Err(unexpected(other)),
        }
    }

    /// One order at a time: the launcher answers in microseconds, as it only forks.
    async fn ask(&self, order: LauncherOrder) -> Result<(LauncherReply, Vec<OwnedFd>), SandboxError> {
        self.errand().ask(order).await
    }
}

/// A workspace that is mounted for an engine.
pub(crate) struct Mounted {
    pub(crate) order: OpenOrder,
    pub(crate) uncovered: Uncovered,
    /// The user namespace that its jobs enter.
    pub(crate) users: OwnedFd,
    /// The way to its steward, who ends when this is closed.
    pub(crate) steward: OwnedFd,
}

/// The way to the launcher for those who do not own it.
#[derive(Debug, Clone)]
pub(crate) struct Errand {
    link: Arc<Mutex<OwnedFd>>,
    pub(crate) epolls: Arc<EpollGauge>,
}

impl Errand {
    /// Checks a workspace, makes its directories and mounts its overlay where the host sees it.
    pub(crate) async fn mount(&self, spec: WorkspaceSpec) -> Result<Mounted, SandboxError> {
        let order = prepare(spec)?;
        match self.ask(LauncherOrder::Mount(order.clone())).await? {
            (LauncherReply::Mounted(uncovered), mut fds) => match (fds.pop(), fds.pop()) {
                (Some(steward), Some(users)) => {
                    // Who does not listen holds up nobody.
                    rustix::io::ioctl_fionbio(&steward, true).map_err(|error| SandboxError::io("preparing a socket")(error.into()))?;
                    Ok(Mounted { order, uncovered, users, steward })
                }
                _ => Err(SandboxError::Gone { who: "launcher" }),
            },
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Changes what is masked in a mounted overlay.
    pub(crate) async fn remask(&self, work: Bytes, change: MaskOrder) -> Result<Uncovered, SandboxError> {
        match self.ask(LauncherOrder::Mask(work, change)).await?.0 {
            LauncherReply::Mounted(uncovered) => Ok(uncovered),
            other => Err(unexpected(other)),
        }
    }

    /// Starts a program that ends with the launcher. Its pidfd comes back.
    pub(crate) async fn start(&self, argv: Vec<crate::order::Bytes>) -> Result<OwnedFd, SandboxError> {
        match self.ask(LauncherOrder::Start(argv)).await? {
            (LauncherReply::Started, mut fds) => fds.pop().ok_or(SandboxError::Gone { who: "launcher" }),
            (other, _) => Err(unexpected(other)),
        }
    }

    async fn ask(&self, order: LauncherOrder) -> Result<(LauncherReply, Vec<OwnedFd>), SandboxError> {
        let link = Arc::clone(&self.link);
        let asked = tokio::task::spawn_blocking(move || {
            let link = link.lock();
            packet::send(&*link, &order, &[])?;
            packet::receive(&*link)
        });
        match asked.await {
            Ok(Ok(Some(answer))) => Ok(answer),
            Ok(Ok(None)) | Err(_) => Err(SandboxError::Gone { who: "launcher" }),
            Ok(Err(cause)) if cause.raw_os_error() == Some(libc::EPIPE) => Err(SandboxError::Gone { who: "launcher" }),
            Ok(Err(cause)) => Err(SandboxError::Io { what: "asking the launcher", cause }),
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = sys::reap(self.pid, true);
    }
}

fn unexpected(reply: LauncherReply) -> SandboxError {
    match reply {
        LauncherReply::Failed(failure) => failure.into(),
        _ => SandboxError::Gone { who: "launcher" },
    }
}

/// Checks the paths and makes the workspace's directories.
fn prepare(spec: WorkspaceSpec) -> Result<OpenOrder, SandboxError> {
    let real = std::fs::canonicalize(&spec.project)
        .map_err(|error| SandboxError::from(Failure::new(Step::Overlay, error).about(spec.project.display())))?;
    // The room shows the project under the name it really has; another name would be a promise about a link.
    if real != spec.project {
        return Err(SandboxError::Project { path: spec.project, why: "its path must be absolute and without links" });
    }
    let reserved = ["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/dev", "/proc", "/sys", "/tmp", "/run"];
    if reserved.iter().any(|path| Path::new(path).starts_with(&real)) {
        return Err(SandboxError::Project { path: real, why: "sandboxes need this folder for themselves" });
    }
    if ["/dev", "/proc", "/sys"].iter().any(|path| real.starts_with(path)) {
        return Err(SandboxError::Project { path: real, why: "it lies on a system file system" });
    }
    if spec.work.starts_with(&real) || real.starts_with(&spec.work) {
        return Err(SandboxError::Project { path: real, why: "it and the workspace lie in each other" });
    }
    for folder in [spec.work.clone(), spec.work.join("upper"), spec.work.join("work")] {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| SandboxError::from(Failure::new(Step::WorkDirectory, error).about(folder.display())))?;
    }
    let mode = std::fs::metadata(&real).map_err(SandboxError::io("reading the project's mode"))?.permissions();
    let work = std::fs::canonicalize(&spec.work).map_err(SandboxError::io("finding the workspace directory"))?;
    if work.starts_with(&real) {
        return Err(SandboxError::Project { path: real, why: "it and the workspace lie in each other" });
    }
    // The upper folder is the merged project's own folder.
    std::fs::set_permissions(work.join("upper"), mode).map_err(SandboxError::io("preparing the workspace directory"))?;
    for bind in &spec.binds {
        let target = &bind.target;
        // What lies in /tmp is carried over a job's own /tmp; nothing can stand in for all of it.
        let replaced = ["/dev", "/proc"].iter().any(|path| target.starts_with(path)) || target == Path::new("/tmp");
        let covered = replaced && !target.starts_with(&real);
        if covered || !target.is_absolute() {
            let why = if covered { "each job has a file system of its own there" } else { "its path must be absolute" };
            return Err(SandboxError::Project { path: target.clone(), why });
        }
    }
    for share in &spec.shares {
        prepare_share(share, &real, &work)?;
    }
    let shares = spec.shares.into_iter().map(|share| ShareOrder {
        source: share.source.map(Into::into),
        target: share.target.into(),
        layer: share.layer,
        masked: share.masked.into_iter().map(Into::into).collect(),
    });
    let binds =
        spec.binds.into_iter().map(|bind| BindOrder { source: bind.source.into(), target: bind.target.into(), writable: bind.writable });
    Ok(OpenOrder {
        project: real.into(),
        work: work.into(),
        masked: spec.masked.into_iter().map(Into::into).collect(),
        binds: binds.collect(),
        shares: shares.collect(),
        beneath: spec.beneath.map(Into::into),
    })
}

/// Checks where a share is to appear, and makes the folders of its layer.
fn prepare_share(share: &HostShare, project: &Path, work: &Path) -> Result<(), SandboxError> {
    let bad = |why| Err(SandboxError::Project { path: share.target.clone(), why });
    let target = &share.target;
    let plain = target.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_)));
    if !target.is_absolute() || !plain || share.source.as_ref().is_some_and(|source| !source.is_absolute()) {
        return bad("its path must be absolute and plain");
    }
    if target.starts_with(project) || project.starts_with(target) {
        return bad("it and the project lie in each other");
    }
    let reserved = ["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/dev", "/proc", "/sys", "/tmp", "/run"];
    let own = ["/usr", "/etc", "/dev", "/proc", "/sys"].iter().any(|path| target.starts_with(path));
    if own || reserved.iter().any(|path| Path::new(path).starts_with(target)) {
        return bad("sandboxes need this folder for themselves");
    }
    let Some(layer) = &share.layer else {
        return if share.source.is_some() { Ok(()) } else { bad("nothing would be there") };
    };
    if layer.is_empty() || !layer.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        return bad("the name of its layer must be of letters, digits and hyphens");
    }
    for folder in share::layer_folders(work, layer) {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&folder)
            .map_err(|error| SandboxError::from(Failure::new(Step::WorkDirectory, error).about(folder.display())))?;
    }
    Ok(())
}

/// Notes which process holds the workspace, so that a later kernel can tell whether it still does.
fn remember(work: &Path, pid: i32) -> Result<(), SandboxError> {
    // By way of another name: a kernel that is killed here must not leave half a note.
    let (note, half) = (work.join(crate::orphan::HOLDER), work.join(crate::orphan::HALF));
    let noted = Identity::of(pid)
        .and_then(|identity| Ok(serde_json::to_vec(&identity)?))
        .and_then(|bytes| std::fs::write(&half, bytes))
        .and_then(|()| std::fs::rename(&half, &note));
    noted.map_err(SandboxError::io("noting the workspace's holder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_refused() {
        // The test harness is one, besides this test.
        assert!(matches!(Launcher::start(), Err(SandboxError::Threads { threads }) if threads > 1));
    }
}
