//! The wire to a holder, and the one task that reads what the holder says.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

use crate::dying::{Dying, UnclaimedJob};
use crate::fault::{Failure, SandboxError};
use crate::order::{HolderOrder, HolderReply, JobOrder, MaskOrder, Uncovered};
use crate::packet;
use crate::spec::Usage;
use crate::sys;

/// The pid and pidfd of a job's pid 1, its doors and its inlets.
pub(crate) type Started = Result<(i32, UnclaimedJob, Vec<OwnedFd>), Failure>;
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
    /// Ordered and given up; the holder has not said yet what became of them.
    abandoned: HashSet<u64>,
    masking: HashMap<u64, oneshot::Sender<Masked>>,
}

/// A room that is ready: the way to its holder, and what the holder's first word brings.
pub(crate) struct LinkOpening {
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
    /// How many are abandoned.
    abandoned: watch::Sender<usize>,
    dying: Dying,
}

/// A job's place on the list of those who are waited for. Dropped, it takes the job off; a start that the holder confirms after
/// that is answered with a kill.
#[derive(Debug)]
pub(crate) struct JobSlot {
    link: Arc<Link>,
    pub(crate) id: u64,
    /// The holder has the order, so it will say what became of it.
    ordered: bool,
}

impl JobSlot {
    /// Orders the job of this place. `files` are its own.
    pub(crate) async fn order(&mut self, order: JobOrder, files: &[BorrowedFd<'_>]) -> Result<(), SandboxError> {
        self.link.send(&HolderOrder::Spawn(Box::new(JobOrder { id: self.id, ..order })), files).await?;
        self.ordered = true;
        Ok(())
    }
}

impl Drop for JobSlot {
    fn drop(&mut self) {
        if let Some(jobs) = self.link.jobs.lock().as_mut() {
            let unanswered = jobs.waiting.remove(&self.id).is_some_and(|job| job.started.is_some());
            if unanswered && self.ordered {
                jobs.abandoned.insert(self.id);
                self.link.abandoned.send_replace(jobs.abandoned.len());
            }
        }
    }
}

impl Link {
    /// Waits for the holder's first word, which brings the merged root, and then listens for the rest.
    pub(crate) async fn open(socket: OwnedFd, dying: Dying) -> Result<LinkOpening, SandboxError> {
        rustix::io::ioctl_fionbio(&socket, true).map_err(|error| SandboxError::io("preparing a socket")(error.into()))?;
        let socket = sys::watch(socket).map_err(SandboxError::io("watching a socket"))?;
        let jobs = Jobs { next_id: 1, waiting: HashMap::new(), abandoned: HashSet::new(), masking: HashMap::new() };
        let link = Arc::new(Link { socket, jobs: Mutex::new(Some(jobs)), abandoned: watch::Sender::new(0), dying });
        let (root, bare, uncovered) = match link.receive().await {
            Ok(Some((HolderReply::Ready(uncovered), mut fds))) => match (fds.pop(), fds.pop()) {
                (Some(bare), Some(root)) => (root, bare, uncovered),
                _ => return Err(SandboxError::Gone { who: "holder" }),
            },
            Ok(Some((HolderReply::Failed(failure), _))) => return Err(failure.into()),
            _ => return Err(SandboxError::Gone { who: "holder" }),
        };
        tokio::spawn(listen(Arc::clone(&link)));
        Ok(LinkOpening { link, root, bare, uncovered })
    }

    /// Puts a new job on the list.
    pub(crate) fn expect(self: &Arc<Link>) -> Result<(JobSlot, oneshot::Receiver<Started>, oneshot::Receiver<Unreported>), SandboxError> {
        let mut guard = self.jobs.lock();
        let jobs = guard.as_mut().ok_or(SandboxError::Gone { who: "holder" })?;
        let id = jobs.next_id;
        jobs.next_id += 1;
        let (started_sender, started) = oneshot::channel();
        let (unreported_sender, unreported) = oneshot::channel();
        jobs.waiting.insert(id, Waiting { started: Some(started_sender), unreported: unreported_sender });
        Ok((JobSlot { link: Arc::clone(self), id, ordered: false }, started, unreported))
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

    /// Waits until nothing lives of the jobs that were given up, nor can any of them still start.
    pub(crate) async fn buried(&self) -> Result<(), SandboxError> {
        // The sender is ours, so the wait does not fail.
        let _ = self.abandoned.subscribe().wait_for(|count| *count == 0).await;
        self.dying.gone().await
    }

    /// The holder has said what became of an order.
    fn answered(&self, jobs: &mut Jobs, id: u64) {
        if jobs.abandoned.remove(&id) {
            self.abandoned.send_replace(jobs.abandoned.len());
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
                let job = UnclaimedJob::new(pidfd, &link.dying);
                if let Some(started) = jobs.waiting.get_mut(&id).and_then(|job| job.started.take()) {
                    // Refused now, or left lying in the channel by who waits no longer: it dies with the value.
                    let _ = started.send(Ok((pid, job, fds.collect())));
                } else {
                    drop(job);
                }
                link.answered(jobs, id);
            }
            HolderReply::NotStarted { id, failure } => {
                if let Some(started) = jobs.waiting.get_mut(&id).and_then(|job| job.started.take()) {
                    let _ = started.send(Err(failure));
                }
                link.answered(jobs, id);
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
    link.abandoned.send_replace(0);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    use rustix::process::{Pid, PidfdFlags};

    use super::*;
    use crate::order::ActOrder;
    use crate::spec::{Limits, Profile};

    /// A process that stands for a job, and what names it.
    fn job() -> (Child, OwnedFd) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        (child, pidfd)
    }

    fn order() -> JobOrder {
        let text = |text: &str| crate::order::Bytes::Text(text.into());
        JobOrder {
            id: 0,
            act: ActOrder::Exec { argv: vec![text("true")] },
            env: Vec::new(),
            cwd: text(""),
            profile: Profile::Standard,
            limits: Limits::default(),
            terminal: None,
            doors: Vec::new(),
            inlets: 0,
        }
    }

    /// A link to a holder that this test plays.
    async fn link() -> (Arc<Link>, OwnedFd) {
        let (here, holder) = packet::pair().unwrap();
        packet::send(&holder, &HolderReply::Ready(Uncovered::default()), &[holder.as_fd(), holder.as_fd()]).unwrap();
        (Link::open(here, Dying::default()).await.unwrap().link, holder)
    }

    fn confirm(holder: &OwnedFd, id: u64, pidfd: &OwnedFd) {
        packet::send(holder, &HolderReply::Started { id, pid: 1 }, &[pidfd.as_fd()]).unwrap();
    }

    /// Returns once the link has read all that the holder said.
    async fn heard(link: &Arc<Link>, holder: &OwnedFd) {
        let (place, started, _unreported) = link.expect().unwrap();
        let failure = Failure::new(crate::fault::Step::Fork, io::Error::from_raw_os_error(libc::EAGAIN));
        packet::send(holder, &HolderReply::NotStarted { id: place.id, failure }, &[]).unwrap();
        assert!(matches!(started.await, Ok(Err(_))));
    }

    #[tokio::test]
    async fn a_start_that_was_confirmed_and_not_heard_is_killed() {
        let (link, holder) = link().await;
        let (mut kept, pidfd) = job();
        let (place, started, _unreported) = link.expect().unwrap();
        confirm(&holder, place.id, &pidfd);
        let (_, claimed, _) = started.await.unwrap().unwrap();
        // The control: one that was heard and claimed lives on without its place.
        claimed.claim();
        drop(place);
        heard(&link, &holder).await;
        assert!(kept.try_wait().unwrap().is_none());
        kept.kill().unwrap();
        kept.wait().unwrap();

        let (mut lost, pidfd) = job();
        let (place, started, unreported) = link.expect().unwrap();
        confirm(&holder, place.id, &pidfd);
        heard(&link, &holder).await;
        // As a future that is dropped between the holder's word and its next turn: the word lies in the channel.
        drop((started, unreported, place));
        link.buried().await.unwrap();
        assert_eq!(lost.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[tokio::test]
    async fn nothing_is_buried_before_the_holder_has_come_to_it() {
        let (link, holder) = link().await;
        let (mut child, pidfd) = job();
        let (mut place, started, unreported) = link.expect().unwrap();
        place.order(order(), &[]).await.unwrap();
        let id = place.id;
        drop((started, unreported, place));
        // One whose order was never sent is waited for by nobody.
        drop(link.expect().unwrap());
        let mut buried = std::pin::pin!(link.buried());
        let begun = std::future::poll_fn(|context| std::task::Poll::Ready(buried.as_mut().poll(context).is_ready())).await;
        assert!(!begun, "the holder may still start it");
        confirm(&holder, id, &pidfd);
        buried.await.unwrap();
        let ended = child.try_wait().unwrap().expect("nothing of it lives any more");
        assert_eq!(ended.signal(), Some(libc::SIGKILL));
        // And where nothing was given up there is nothing to wait for.
        link.buried().await.unwrap();
    }
}
