//! Jobs that run now: what they use, and how they are paused.
//!
//! A tree is paused by its freezer where the host has cgroups of version 2, and else by its pid 1, which sends SIGSTOP to all it
//! can see: one call of the system's that no fork slips through. Either way a paused tree can still be killed.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::sync::watch;

use crate::cgroup::Group;
use crate::fault::SandboxError;
use crate::process;

/// To pid 1 of a job, from outside: stop all, and go on.
pub(crate) const PAUSE: Signal = Signal::USR1;
pub(crate) const RESUME: Signal = Signal::USR2;

/// What a job uses at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFigures {
    /// The host's pid of the room's pid 1.
    pub pid: i32,
    /// Program and arguments.
    pub command: Vec<String>,
    pub age: Duration,
    /// Of the whole tree: with caches by its cgroup, else the sum of what its processes hold.
    pub memory_bytes: u64,
    /// Of all processes of the tree, also those that have ended.
    pub cpu_ms: u64,
    pub processes: u64,
}

/// A job as its workspace remembers it while it runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pid: i32,
    pub(crate) pidfd: Arc<OwnedFd>,
    pub(crate) command: Vec<String>,
    pub(crate) began: Instant,
    pub(crate) group: Option<Arc<Group>>,
    /// Somebody holds this job still, whatever becomes of its room.
    pub(crate) held: AtomicBool,
    /// It is held and has come to a stop: it takes nothing, so nobody needs to look at what it takes.
    pub(crate) still: watch::Sender<bool>,
}

/// A way to hold one job still, and to end it, for whoever does not wait for it.
#[derive(Debug, Clone)]
pub struct JobControl(pub(crate) Arc<Running>);

impl JobControl {
    /// The host's pid of the room's pid 1.
    pub fn pid(&self) -> i32 {
        self.0.pid
    }

    /// Stops the whole tree until [`JobControl::release`], also where the room itself is resumed meanwhile.
    pub async fn hold(&self) -> Result<(), SandboxError> {
        self.0.held.store(true, Ordering::SeqCst);
        self.0.pause().await?;
        self.0.still.send_replace(true);
        thaw_at_end(&self.0);
        Ok(())
    }

    pub fn release(&self) {
        self.0.still.send_replace(false);
        self.0.held.store(false, Ordering::SeqCst);
        self.0.resume();
    }

    pub fn kill(&self) {
        self.0.kill();
    }

    /// The host's pids of the tree, without its pid 1.
    pub fn processes(&self) -> BTreeSet<i32> {
        process::tree(self.0.pid).iter().skip(1).map(|process| process.pid).collect()
    }
}

/// A freezer holds pid 1 as well, which then buries nobody. When the command of a frozen job is killed from outside, the job goes on, so that
/// its end is known.
fn thaw_at_end(running: &Arc<Running>) {
    let is_frozen = running.group.as_ref().is_some_and(|group| group.is_frozen());
    let command = if is_frozen { process::first_child(running.pid).and_then(rustix::process::Pid::from_raw) } else { None };
    let watched = command.and_then(|command| {
        let pidfd = rustix::process::pidfd_open(command, rustix::process::PidfdFlags::empty()).ok()?;
        // Its number is another's only after its parent, which stands still, has buried it.
        crate::sys::watch(pidfd).ok()
    });
    let Some(command) = watched else { return };
    let (running, mut still) = (Arc::downgrade(running), running.still.subscribe());
    tokio::spawn(async move {
        tokio::select! {
            _ = still.wait_for(|still| !still) => {}
            _ = command.readable() => {
                if let Some(group) = running.upgrade().and_then(|running| running.group.clone()) {
                    group.freeze(false);
                }
            }
        }
    });
}

/// Has a watch look only while its job is not held still.
pub(crate) async fn unless_still<T>(mut still: watch::Receiver<bool>, watching: impl Future<Output = T>) -> T {
    let mut watching = std::pin::pin!(watching);
    loop {
        // A job that is gone is held by nobody.
        if still.wait_for(|still| !still).await.is_err() {
            return watching.await;
        }
        tokio::select! {
            biased;
            _ = still.wait_for(|still| *still) => {}
            end = &mut watching => return end,
        }
    }
}

/// A process that waits for a disk stops when that is over; one that does not stop by then is told of.
const STOPS_MAX: Duration = Duration::from_secs(5);

impl Running {
    /// `None` when it is on its way out.
    pub(crate) fn figures(&self) -> Option<JobFigures> {
        let tree = process::tree(self.pid);
        let own = tree.first()?;
        let rss: u64 = tree.iter().skip(1).map(|process| process.resident_bytes).sum();
        Some(JobFigures {
            pid: self.pid,
            command: self.command.clone(),
            age: self.began.elapsed(),
            memory_bytes: self.group.as_ref().and_then(|group| group.memory_bytes()).unwrap_or(rss),
            // What pid 1 itself took to close the room is not the job's.
            cpu_ms: own.children_ms + tree.iter().skip(1).map(|process| process.own_ms + process.children_ms).sum::<u64>(),
            processes: tree.len() as u64 - 1,
        })
    }

    /// Returns when nothing of the tree runs any more.
    pub(crate) async fn pause(&self) -> Result<(), SandboxError> {
        let began = Instant::now();
        let frozen = self.group.as_ref().filter(|group| group.freeze(true));
        while began.elapsed() < STOPS_MAX {
            let stopped = match frozen {
                Some(group) => group.is_frozen(),
                None => {
                    self.tell(PAUSE);
                    let tree = process::tree(self.pid);
                    tree.len() > 1 && tree.iter().skip(1).all(|process| process.stopped)
                }
            };
            if stopped || fs::metadata(format!("/proc/{}", self.pid)).is_err() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Err(SandboxError::Unpaused { pid: self.pid })
    }

    pub(crate) fn resume(&self) {
        if self.held.load(Ordering::SeqCst) {
            return;
        }
        if !self.group.as_ref().is_some_and(|group| group.freeze(false)) {
            self.tell(RESUME);
        }
    }

    fn tell(&self, signal: Signal) {
        let _ = rustix::process::pidfd_send_signal(&*self.pidfd, signal);
    }

    pub(crate) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&*self.pidfd, Signal::KILL);
        if let Some(group) = &self.group {
            group.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[tokio::test]
    async fn a_job_that_is_held_still_is_not_looked_at() {
        let (still, looks) = (watch::Sender::new(false), Arc::new(AtomicUsize::new(0)));
        let (counted, heard) = (looks.clone(), still.subscribe());
        let mut watching = Box::pin(unless_still(heard, async move {
            loop {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        }));
        let mut look = async || {
            let before = looks.load(Ordering::SeqCst);
            for _ in 0..10 {
                tokio::select! {
                    biased;
                    () = &mut watching => {}
                    () = tokio::task::yield_now() => {}
                }
            }
            looks.load(Ordering::SeqCst) - before
        };
        assert!(look().await > 0);
        still.send_replace(true);
        assert_eq!(look().await, 0, "nothing is looked at");
        still.send_replace(false);
        assert!(look().await > 0, "and then again");
    }
}
