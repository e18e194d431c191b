//! A job's streams while it runs: what somebody types and sees.
//!
//! **Invariant.** No more is held than one buffer and the beginning that a result may show: a reader that is slow makes the job slow.

use crate::kept_job::KeptJob;
use parking_lot::Mutex;
use rustix::process::Signal;
use sandbox::{JobEnd, JobSpec, SandboxError, Stdio, Window, Workspace};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

/// What a call is given of its job: the bounds, whoever follows it, and a way out. Without them, the default ones, nobody and none.
#[derive(Clone, Copy, Default)]
pub struct JobSetup<'a> {
    pub template: Option<&'a sandbox::Template>,
    pub follower: Option<&'a JobFollower>,
    /// Where the end of its output can be seen while it runs.
    pub tail: Option<&'a std::sync::Arc<sandbox::OutputTail>>,
    /// The way out of the room, where its template has one.
    pub network: Option<&'a dyn crate::JobNetwork>,
    /// What the kernel itself tells programs about the work that they are part of.
    pub variables: &'a [(String, String)],
}

/// Whoever follows a job.
#[derive(Debug)]
pub struct JobFollower {
    pub streams: Streams,
    /// True once nobody follows any more; the job ends then.
    pub gone: watch::Receiver<bool>,
}

#[derive(Debug)]
pub enum Streams {
    /// Pipes: one that the job reads, and two to which its output is passed on.
    Pipes { input: Option<OwnedFd>, output: OwnedFd, errors: OwnedFd },
    /// A job that stays when its call lets go of it.
    Kept(Arc<KeptJob>),
    /// A terminal that the room opens.
    Terminal(TerminalLine),
}

/// A terminal to be: how large it is at first, and who gets the side that is typed at.
#[derive(Debug)]
pub struct TerminalLine {
    window: Window,
    give: Mutex<Option<oneshot::Sender<OwnedFd>>>,
}

impl TerminalLine {
    /// With where its side comes out once the job has started.
    pub fn new(window: Window) -> (TerminalLine, oneshot::Receiver<OwnedFd>) {
        let (give, side) = oneshot::channel();
        (TerminalLine { window, give: Mutex::new(Some(give)) }, side)
    }

    fn hand_over(&self, side: Option<OwnedFd>) {
        if let (Some(give), Some(side)) = (self.give.lock().take(), side) {
            // Nobody waits for it when the one who follows has gone, which ends the job too.
            drop(give.send(side));
        }
    }
}

/// A job that was followed, and the beginning of what it said.
pub(crate) struct Followed {
    /// `None` where the call let go of it and it lives on.
    pub ended: Option<JobEnd>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub truncated: bool,
}

impl JobFollower {
    /// The job that stays when its call lets go of it, if it is such a one.
    pub fn kept(&self) -> Option<&Arc<KeptJob>> {
        match &self.streams {
            Streams::Kept(job) => Some(job),
            _ => None,
        }
    }

    pub(crate) async fn follow(
        &self,
        room: &Workspace,
        mut spec: JobSpec,
        attend: impl FnOnce(Vec<TcpListener>),
    ) -> Result<Followed, SandboxError> {
        let broken = |cause: io::Error| SandboxError::Io { what: "passing a job's streams on", cause };
        let keep = spec.output_max;
        match &self.streams {
            Streams::Kept(job) => job.follow(room, spec, attend, self.gone.clone()).await,
            Streams::Terminal(line) => {
                spec.terminal = Some(line.window);
                let mut job = room.spawn(spec, Stdio::Null, Stdio::Null, Stdio::Null).await?;
                line.hand_over(job.terminal());
                attend(job.doors());
                let ended = self.to_its_end(job).await?;
                Ok(Followed { ended: Some(ended), stdout: Vec::new(), stderr: Vec::new(), truncated: false })
            }
            Streams::Pipes { input, output, errors } => {
                let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| broken(error.into()));
                let ((out_read, out_write), (err_read, err_write)) = (pipe()?, pipe()?);
                let stdin = match input {
                    Some(fd) => Stdio::Fd(fd.try_clone().map_err(broken)?),
                    None => Stdio::Null,
                };
                let mut job = room.spawn(spec, stdin, Stdio::Fd(out_write), Stdio::Fd(err_write)).await?;
                attend(job.doors());
                let (ended, out, err) =
                    tokio::join!(self.to_its_end(job), pass_on(out_read, output, keep), pass_on(err_read, errors, keep));
                let (ended, (stdout, out_cut), (stderr, err_cut)) = (ended?, out.map_err(broken)?, err.map_err(broken)?);
                Ok(Followed { ended: Some(ended), stdout, stderr, truncated: out_cut || err_cut })
            }
        }
    }

    /// Waits for the job, and kills it when nobody follows any more.
    async fn to_its_end(&self, job: sandbox::Job) -> Result<JobEnd, SandboxError> {
        let pidfd = job.pidfd().try_clone().map_err(|cause| SandboxError::Io { what: "watching a job", cause })?;
        let mut gone = self.gone.clone();
        let mut ended = std::pin::pin!(job.wait());
        tokio::select! {
            ended = &mut ended => return ended,
            _ = gone.wait_for(|gone| *gone) => {}
        }
        // It may have ended just now.
        let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
        ended.await
    }
}

/// Copies to the end, and keeps the beginning. A follower that has gone is not waited for; what comes then is dropped.
async fn pass_on(from: OwnedFd, to: &OwnedFd, keep: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut from = pipe::Receiver::from_owned_fd(from)?;
    let mut to = Some(pipe::Sender::from_owned_fd(to.try_clone()?)?);
    let (mut kept, mut cut) = (Vec::new(), false);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let got = from.read(&mut buffer).await?;
        if got == 0 {
            return Ok((kept, cut));
        }
        let wanted = got.min(keep - kept.len());
        kept.extend_from_slice(&buffer[..wanted]);
        cut |= wanted < got;
        if let Some(pipe) = &mut to
            && pipe.write_all(&buffer[..got]).await.is_err()
        {
            to = None;
        }
    }
}
