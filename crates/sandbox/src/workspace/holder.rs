//! The process that holds a native workspace's mounts and starts its jobs, as the kernel sees it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::process::Signal;
use tokio::sync::oneshot;

use crate::cgroup::{Cgroups, Group, JobBranch};
use crate::dying::UnclaimedJob;
use crate::fault::SandboxError;
use crate::link::{JobSlot, Link, Unreported};
use crate::order::JobOrder;

/// A room, as the kernel holds it: by its holder's socket and pidfd. Dropping it ends the holder and every job.
#[derive(Debug)]
pub(super) struct HeldRoom {
    pub(super) link: Arc<Link>,
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) cgroups: Arc<Cgroups>,
}

impl HeldRoom {
    /// Starts a job and waits until its first process runs.
    pub(super) async fn start(
        &self,
        order: JobOrder,
        files: Vec<OwnedFd>,
        branch: Option<&Arc<JobBranch>>,
    ) -> Result<Underway, SandboxError> {
        let group = self.cgroups.open(&order.limits, branch).map_err(SandboxError::io("making a cgroup"))?.map(Arc::new);
        let (mut place, started, unreported) = self.link.expect()?;
        let joins = group.iter().flat_map(|group| group.joins());
        let all: Vec<BorrowedFd<'_>> = files.iter().chain(joins).map(AsFd::as_fd).collect();
        place.order(order, &all).await?;
        drop(files);
        match started.await {
            Ok(Ok((pid, job, openings))) => {
                Ok(Underway { pid, job, openings, unreported, keeper: Keeper::Holder { group, _place: place } })
            }
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(SandboxError::Gone { who: "holder" }),
        }
    }
}

impl Drop for HeldRoom {
    fn drop(&mut self) {
        // Jobs asked to die with their holder, so killing it reaches them all. The reader ends with the holder's socket.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

/// A job whose pid 1 has started.
pub(crate) struct Underway {
    pub(crate) pid: i32,
    pub(crate) job: UnclaimedJob,
    /// Its doors, then its inlets, then its terminal.
    pub(crate) openings: Vec<OwnedFd>,
    /// How pid 1 ended, when it did without a report.
    pub(crate) unreported: oneshot::Receiver<Unreported>,
    pub(crate) keeper: Keeper,
}

/// Who holds a job's limits and buries it.
#[derive(Debug)]
pub(crate) enum Keeper {
    Holder { group: Option<Arc<Group>>, _place: JobSlot },
    Engine(crate::oci::Grave),
}

/// A holder whose workspace never came to be.
pub(super) struct KillOnDrop(pub(super) Option<OwnedFd>);

impl KillOnDrop {
    pub(super) fn keep(mut self) -> Option<OwnedFd> {
        self.0.take()
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(pidfd) = &self.0 {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}
