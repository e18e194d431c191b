//! The process that holds a native workspace's mounts and starts its jobs, as the kernel sees it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::process::Signal;
use tokio::sync::oneshot;

use crate::cgroup::{Cgroups, Group};
use crate::fault::SandboxError;
use crate::link::{Link, Place, Unreported};
use crate::order::{HolderOrder, SpawnOrder};

/// Dropping it ends the holder and every job.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) link: Arc<Link>,
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) cgroups: Arc<Cgroups>,
}

impl Holder {
    /// Starts a job and waits until its first process runs.
    pub(super) async fn start(&self, mut order: SpawnOrder, files: Vec<OwnedFd>) -> Result<Underway, SandboxError> {
        let group = self.cgroups.open(&order.limits).map(Arc::new);
        let (place, started, unreported) = self.link.expect()?;
        order.id = place.id;
        let joins = group.iter().flat_map(|group| group.joins());
        let all: Vec<BorrowedFd<'_>> = files.iter().chain(joins).map(AsFd::as_fd).collect();
        self.link.send(&HolderOrder::Spawn(Box::new(order)), &all).await?;
        drop(files);
        match started.await {
            Ok(Ok((pid, pidfd, openings))) => {
                Ok(Underway { pid, pidfd, openings, unreported, keeper: Keeper::Holder { group, _place: place } })
            }
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(SandboxError::Gone { who: "holder" }),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Jobs asked to die with their holder, so killing it reaches them all. The reader ends with the holder's socket.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

/// A job whose pid 1 has started.
pub(crate) struct Underway {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    /// Its doors, then its inlets, then its terminal.
    pub(crate) openings: Vec<OwnedFd>,
    /// How pid 1 ended, when it did without a report.
    pub(crate) unreported: oneshot::Receiver<Unreported>,
    pub(crate) keeper: Keeper,
}

/// Who holds a job's limits and buries it.
#[derive(Debug)]
pub(crate) enum Keeper {
    Holder { group: Option<Arc<Group>>, _place: Place },
    Engine(crate::oci::Grave),
}

/// A holder whose workspace, or a job whose value, never came to be.
pub(super) struct KillOnDrop<T: AsFd>(pub(super) Option<T>);

impl<T: AsFd> KillOnDrop<T> {
    pub(super) fn keep(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: AsFd> Drop for KillOnDrop<T> {
    fn drop(&mut self) {
        if let Some(pidfd) = &self.0 {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}
