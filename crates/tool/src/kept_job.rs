//! A job that outlives the call that started it: a client that stays for its worker's next task.
//!
//! One call after the other follows it and lets go of it. **Invariant.** Between two calls the job is held still and nobody serves its
//! doors. A call that ends in any other way than by letting go ends the job, and so does dropping the last handle of it.

use crate::follower::Followed;
use parking_lot::Mutex;
use sandbox::{Exit, JobControl, JobEnd, JobSpec, SandboxError, Stdio, Workspace};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

/// A job, before it starts, while a call follows it, and between two calls.
pub struct KeptJob {
    /// What it will read and write.
    streams: Mutex<Option<(OwnedFd, OwnedFd)>>,
    started: OnceLock<StartedJob>,
    /// Its end, for the call that follows it.
    ended: tokio::sync::Mutex<Option<oneshot::Receiver<Result<JobEnd, SandboxError>>>>,
    stage: watch::Sender<KeptStage>,
    /// How many calls have followed it.
    follows: watch::Sender<u64>,
    /// How it ended, once it has.
    exit: Arc<OnceLock<String>>,
    /// The key of its room's door to models, which it was given once and knows for good.
    key: OnceLock<String>,
}

/// How a kept job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptStage {
    /// Nobody follows it yet, or any more.
    Idle,
    Followed,
    /// Whoever follows it is to let go.
    Released,
    Over,
}

struct StartedJob {
    control: JobControl,
    waiter: AbortHandle,
    doors: Vec<std::net::TcpListener>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// The processes that it had before any tool of it ran.
    own: Mutex<Option<BTreeSet<i32>>>,
}

impl std::fmt::Debug for KeptJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptJob").field("stage", &*self.stage.borrow()).finish_non_exhaustive()
    }
}

impl KeptJob {
    /// One that will read `input` and write to `output`.
    pub fn new(input: OwnedFd, output: OwnedFd) -> Arc<KeptJob> {
        Arc::new(KeptJob {
            streams: Mutex::new(Some((input, output))),
            started: OnceLock::new(),
            ended: tokio::sync::Mutex::new(None),
            stage: watch::Sender::new(KeptStage::Idle),
            follows: watch::Sender::new(0),
            exit: Arc::default(),
            key: OnceLock::new(),
        })
    }

    /// The key of its door to models, once it has one.
    pub fn key(&self) -> Option<&str> {
        self.key.get().map(String::as_str)
    }

    /// Takes the key that it is started with. A later one is not taken: the job could not know it.
    pub fn keep_key(&self, key: &str) {
        self.key.get_or_init(|| key.to_owned());
    }

    /// The host's pid of its room's pid 1, once it has started.
    pub fn pid(&self) -> Option<i32> {
        self.started.get().map(|job| job.control.pid())
    }

    pub fn is_over(&self) -> bool {
        *self.stage.borrow() == KeptStage::Over
    }

    /// How it ended; `None` while it runs.
    pub fn exit(&self) -> Option<&str> {
        self.exit.get().map(String::as_str)
    }

    /// Comes back when a further call has followed it, also where that has let go again, or when nothing of it is left.
    pub fn followed(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mut follows, mut stage) = (self.follows.subscribe(), self.stage.subscribe());
        let before = *follows.borrow();
        async move {
            tokio::select! {
                _ = follows.wait_for(|count| *count > before) => {}
                _ = stage.wait_for(|stage| *stage == KeptStage::Over) => {}
            }
        }
    }

    /// Takes down which processes are the job's own, before any tool of it runs.
    pub fn note_own(&self) {
        if let Some(job) = self.started.get() {
            job.own.lock().get_or_insert_with(|| job.control.processes());
        }
    }

    /// Whether something still runs that a tool of it started.
    pub fn has_more(&self) -> bool {
        self.started.get().is_some_and(|job| job.own.lock().as_ref().is_some_and(|own| !job.control.processes().is_subset(own)))
    }

    /// Holds the job still and has the call that follows it end. False where it cannot be held.
    pub async fn let_go(&self) -> bool {
        let Some(job) = self.started.get() else { return false };
        if job.control.hold().await.is_err() {
            return false;
        }
        self.stage.send_if_modified(|stage| {
            let is_followed = *stage == KeptStage::Followed;
            if is_followed {
                *stage = KeptStage::Released;
            }
            is_followed
        })
    }

    pub fn kill(&self) {
        if let Some(job) = self.started.get() {
            job.control.kill();
        }
    }

    pub(crate) async fn follow(
        &self,
        room: &Workspace,
        spec: JobSpec,
        attend: impl FnOnce(Vec<TcpListener>),
        mut gone: watch::Receiver<bool>,
    ) -> Result<Followed, SandboxError> {
        // Until somebody lets go in order, the end of this ends the job.
        let mut leash = Leash { job: self, is_cut: false };
        let mut ended = self.ended.lock().await;
        match self.started.get() {
            Some(job) => job.control.release(),
            None => *ended = Some(self.start(room, spec).await?),
        }
        let Some(job) = self.started.get() else { return Err(SandboxError::Gone { who: "job" }) };
        attend(listeners(&job.doors).map_err(broken)?);
        let Some(ending) = ended.as_mut() else { return Err(SandboxError::Gone { who: "job" }) };
        self.stage.send_if_modified(|stage| std::mem::replace(stage, followed(*stage)) == KeptStage::Idle);
        self.follows.send_modify(|count| *count += 1);
        let mut stage = self.stage.subscribe();
        let told = async {
            tokio::select! {
                _ = gone.wait_for(|gone| *gone) => true,
                _ = stage.wait_for(|stage| *stage == KeptStage::Released) => false,
            }
        };
        let is_left = tokio::select! {
            end = &mut *ending => Err(end),
            is_left = told => Ok(is_left),
        };
        let end = match is_left {
            Err(end) => end,
            Ok(true) => {
                job.control.kill();
                ending.await
            }
            Ok(false) => {
                leash.is_cut = true;
                self.stage.send_if_modified(|stage| {
                    let is_released = *stage == KeptStage::Released;
                    if is_released {
                        *stage = KeptStage::Idle;
                    }
                    is_released
                });
                return Ok(Followed { ended: None, stdout: Vec::new(), stderr: Vec::new(), truncated: false });
            }
        };
        let ended = end.map_err(|_| SandboxError::Gone { who: "job" })??;
        let stderr = std::mem::take(&mut *job.errors.lock());
        Ok(Followed { ended: Some(ended), stdout: Vec::new(), stderr, truncated: false })
    }

    async fn start(&self, room: &Workspace, spec: JobSpec) -> Result<oneshot::Receiver<Result<JobEnd, SandboxError>>, SandboxError> {
        let Some((input, output)) = self.streams.lock().take() else { return Err(SandboxError::Gone { who: "job" }) };
        let (err_read, err_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| broken(error.into()))?;
        let keep = spec.output_max;
        let mut job = room.spawn(spec, Stdio::Fd(input), Stdio::Fd(output), Stdio::Fd(err_write)).await?;
        let doors = job.doors().into_iter().map(TcpListener::into_std).collect::<io::Result<Vec<_>>>().map_err(broken)?;
        let errors: Arc<Mutex<Vec<u8>>> = Arc::default();
        let collector = collect(err_read, errors.clone(), keep).map_err(broken)?;
        let (tell, told) = oneshot::channel();
        let (control, stage, exit) = (job.control(), self.stage.clone(), self.exit.clone());
        let waiter = tokio::spawn(async move {
            let end = job.wait().await;
            // Its last words come before its end.
            drop(collector.await);
            exit.get_or_init(|| match &end {
                Ok(JobEnd { exit: Exit::Code(code), .. }) => format!("exit code {code}"),
                Ok(JobEnd { exit: Exit::Signal(signal), .. }) => format!("signal {signal}"),
                Err(error) => error.to_string(),
            });
            stage.send_replace(KeptStage::Over);
            drop(tell.send(end));
        });
        let started = StartedJob { control, waiter: waiter.abort_handle(), doors, errors, own: Mutex::new(None) };
        if self.started.set(started).is_err() {
            return Err(SandboxError::Gone { who: "job" });
        }
        Ok(told)
    }
}

impl Drop for KeptJob {
    fn drop(&mut self) {
        if let Some(job) = self.started.get() {
            job.waiter.abort();
        }
    }
}

/// Ends the job, unless it is cut.
struct Leash<'a> {
    job: &'a KeptJob,
    is_cut: bool,
}

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        if !self.is_cut {
            self.job.kill();
        }
    }
}

/// One that ended stays so.
fn followed(stage: KeptStage) -> KeptStage {
    if stage == KeptStage::Idle { KeptStage::Followed } else { stage }
}

fn listeners(doors: &[std::net::TcpListener]) -> io::Result<Vec<TcpListener>> {
    doors.iter().map(|door| TcpListener::from_std(door.try_clone()?)).collect()
}

/// Keeps the end of what a job says in errors: a client may have run for days before it says why it ends.
fn collect(from: OwnedFd, into: Arc<Mutex<Vec<u8>>>, keep: usize) -> io::Result<tokio::task::JoinHandle<()>> {
    let mut from = pipe::Receiver::from_owned_fd(from)?;
    Ok(tokio::spawn(async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(got) = from.read(&mut buffer).await {
            if got == 0 {
                return;
            }
            keep_end(&mut into.lock(), &buffer[..got], keep);
        }
    }))
}

/// Adds to what is kept, and takes from its beginning what is too much.
fn keep_end(kept: &mut Vec<u8>, more: &[u8], keep: usize) {
    kept.extend_from_slice(&more[more.len().saturating_sub(keep)..]);
    kept.drain(..kept.len().saturating_sub(keep));
}

fn broken(cause: io::Error) -> SandboxError {
    SandboxError::Io { what: "passing a job's streams on", cause }
}

/// The end of a call that let go of its job, as a result has it.
pub(crate) fn let_go_end() -> JobEnd {
    JobEnd {
        exit: Exit::Code(0),
        timed_out: false,
        out_of_memory: false,
        overfull: None,
        usage: sandbox::Usage::default(),
        memory: sandbox::Enforcement::None,
        pids: sandbox::Enforcement::None,
        cpu: sandbox::Enforcement::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_what_is_said_is_kept() {
        let mut kept = Vec::new();
        for (more, left) in [("ab", "ab"), ("cde", "bcde"), ("", "bcde"), ("0123456789", "6789")] {
            keep_end(&mut kept, more.as_bytes(), 4);
            assert_eq!(kept, left.as_bytes());
        }
    }
}
