//! The wire to a holder, and the one task that reads what the holder says.

use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::fault::{Failure, SandboxError};
use crate::order::{HolderOrder, HolderReply, MaskOrder, Uncovered};
use crate::packet;
use crate::spec::Usage;
use crate::sys;

/// The pid and pidfd of a job's pid 1, its doors and its inlets.
pub(crate) type Started = Result<(i32, OwnedFd, Vec<OwnedFd>), Failure>;
/// The wait status and usage of a pid 1 that could not report.
pub(crate) type Unreported = (i32, Usage);

type Masked = Result<Uncovered, Failure>;

/// Who waits for a job. The second sender stays until the job is over.
#[derive(Debug)]
struct Waiting {
    started: Option<oneshot::Sender<Started>>,
    unreported: oneshot::Sender<Unreported>,
}

#[derive(Debug)]
struct Jobs {
    next_id: u64,
    waiting: HashMap<u64, Waiting>,
    masking: HashMap<u64, oneshot::Sender<Masked>>,
}

/// A room that is ready: the way to its holder, and what the holder's first word brings.
pub(crate) struct Opened {
    pub(crate) link: Arc<Link>,
    /// The merged project with masks, and without.
    pub(crate) root: OwnedFd,
    pub(crate) bare: OwnedFd,
    pub(crate) uncovered: Uncovered,
}

/// One per workspace.
#[derive(Debug)]
pub(crate) struct Link {
    socket: AsyncFd<OwnedFd>,
    /// `None` once the holder is gone.
    jobs: Mutex<Option<Jobs>>,
}

/// A job's place on the list of those who are waited for. Dropped, it takes the job off; a start that the holder confirms after
/// that is answered with a kill.
#[derive(Debug)]
pub(crate) struct Place {
    link: Arc<Link>,
    pub(crate) id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(jobs) = self.link.jobs.lock().as_mut() {
            jobs.waiting.remove(&self.id);
        }
    }
}

impl Link {
    /// Waits for the holder's first word, which brings the merged root, and then listens for the rest.
    pub(crate) async fn open(socket: OwnedFd) -> Result<Opened, SandboxError> {
        rustix::io::ioctl_fionbio(&socket, true).map_err(|error| SandboxError::io("preparing a socket")(error.into()))?;
        let socket = sys::watch(socket).map_err(SandboxError::io("watching a socket"))?;
        let link = Arc::new(Link { socket, jobs: Mutex::new(Some(Jobs { next_id: 1, waiting: HashMap::new(), masking: HashMap::new() })) });
        let (root, bare, uncovered) = match link.receive().await {
            Ok(Some((HolderReply::Ready(uncovered), mut fds))) => match (fds.pop(), fds.pop()) {
                (Some(bare), Some(root)) => (root, bare, uncovered),
                _ => return Err(SandboxError::Gone { who: "holder" }),
            },
            Ok(Some((HolderReply::Failed(failure), _))) => return Err(failure.into()),
            _ => return Err(SandboxError::Gone { who: "holder" }),
        };
        tokio::spawn(listen(Arc::clone(&link)));
        Ok(Opened { link, root, bare, uncovered })
    }

    /// Puts a new job on the list.
    pub(crate) fn expect(self: &Arc<Link>) -> Result<(Place, oneshot::Receiver<Started>, oneshot::Receiver<Unreported>), SandboxError> {
        let mut guard = self.jobs.lock();
        let jobs = guard.as_mut().ok_or(SandboxError::Gone { who: "holder" })?;
        let id = jobs.next_id;
        jobs.next_id += 1;
        let (started_sender, started) = oneshot::channel();
        let (unreported_sender, unreported) = oneshot::channel();
        jobs.waiting.insert(id, Waiting { started: Some(started_sender), unreported: unreported_sender });
        Ok((Place { link: Arc::clone(self), id }, started, unreported))
    }

    /// Has the holder change what is masked in its room, and in that of every job to come.
    pub(crate) async fn remask(&self, change: MaskOrder) -> Result<Uncovered, SandboxError> {
        let (sender, masked) = oneshot::channel();
        let id = {
            let mut guard = self.jobs.lock();
            let jobs = guard.as_mut().ok_or(SandboxError::Gone { who: "holder" })?;
            let id = jobs.next_id;
            jobs.next_id += 1;
            jobs.masking.insert(id, sender);
            id
        };
        self.send(&HolderOrder::Mask { id, change }, &[]).await?;
        match masked.await {
            Ok(masked) => Ok(masked?),
            Err(_) => Err(SandboxError::Gone { who: "holder" }),
        }
    }

    /// Tells the holder to end: it kills and buries its jobs first.
    pub(crate) fn hang_up(&self) {
        let _ = rustix::net::shutdown(self.socket.get_ref(), rustix::net::Shutdown::Write);
    }

    pub(crate) async fn send(&self, order: &HolderOrder, files: &[BorrowedFd<'_>]) -> Result<(), SandboxError> {
        let sent = self.socket.async_io(Interest::WRITABLE, |fd| packet::send(fd, order, files)).await;
        sent.map_err(|cause| match cause.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => SandboxError::Gone { who: "holder" },
            _ => SandboxError::Io { what: "asking the holder", cause },
        })
    }

    async fn receive(&self) -> io::Result<Option<(HolderReply, Vec<OwnedFd>)>> {
        self.socket.async_io(Interest::READABLE, |fd| packet::receive(fd)).await
    }
}

/// Hands every message of the holder to whoever waits for it, until the holder is gone.
async fn listen(link: Arc<Link>) {
    while let Ok(Some((reply, fds))) = link.receive().await {
        let mut guard = link.jobs.lock();
        let Some(jobs) = guard.as_mut() else { break };
        match reply {
            HolderReply::Started { id, pid } => {
                let mut fds = fds.into_iter();
                let Some(pidfd) = fds.next() else { break };
                let unwanted = match jobs.waiting.get_mut(&id).and_then(|job| job.started.take()) {
                    Some(started) => started.send(Ok((pid, pidfd, fds.collect()))).err().and_then(Result::ok).map(|(_, pidfd, _)| pidfd),
                    None => Some(pidfd),
                };
                if let Some(pidfd) = unwanted {
                    let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
                }
            }
            HolderReply::NotStarted { id, failure } => {
                if let Some(started) = jobs.waiting.get_mut(&id).and_then(|job| job.started.take()) {
                    let _ = started.send(Err(failure));
                }
            }
            HolderReply::Unreported { id, status, usage } => {
                if let Some(job) = jobs.waiting.remove(&id) {
                    let _ = job.unreported.send((status, usage));
                }
            }
            HolderReply::Masked { id, uncovered } => {
                if let Some(masked) = jobs.masking.remove(&id) {
                    let _ = masked.send(Ok(uncovered));
                }
            }
            HolderReply::NotMasked { id, failure } => {
                if let Some(masked) = jobs.masking.remove(&id) {
                    let _ = masked.send(Err(failure));
                }
            }
            HolderReply::Ready(_) | HolderReply::Failed(_) => break,
        }
    }
    // Whoever still waits sees its channel close.
    link.jobs.lock().take();
}
