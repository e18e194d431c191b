//! The kernel's side of one job: how it ended, and that it ends with the value that stands for it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::Keeper;
use crate::cgroup::{self, Group};
use crate::disk::Overfull;
use crate::dying::Dying;
use crate::fault::{Failure, SandboxError, Step};
use crate::figures::{JobControl, JobFigures, Running};
use crate::inlet::Inlets;
use crate::link::Unreported;
use crate::order::JobReport;
use crate::spec::{Act, Enforcement, Exit, Usage};

/// Why a job was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Time,
    Memory,
    Disk(Overfull),
}

/// A job that runs. Its streams end when it does. Dropping it kills it with everything it started.
#[derive(Debug)]
pub struct Job {
    pub(super) doors: Vec<TcpListener>,
    pub(super) inlets: Arc<Inlets>,
    pub(super) terminal: Option<OwnedFd>,
    pub(super) act: Act,
    pub(super) running: Arc<Running>,
    pub(super) report: pipe::Receiver,
    pub(super) unreported: oneshot::Receiver<Unreported>,
    pub(super) cut: Arc<Mutex<Option<Cut>>>,
    pub(super) watches: Vec<AbortHandle>,
    pub(super) keeper: Keeper,
    /// What holds its memory, if not a cgroup.
    pub(super) without_group: Enforcement,
    /// Where it is named when it is killed.
    pub(super) dying: Dying,
    /// It ended by itself, so there is nothing to kill.
    pub(super) over: bool,
}

/// How a job ended and what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobEnd {
    pub exit: Exit,
    pub timed_out: bool,
    pub out_of_memory: bool,
    /// It was ended because it made the workspace too full.
    pub overfull: Option<Overfull>,
    pub usage: Usage,
    pub memory: Enforcement,
    pub pids: Enforcement,
    pub cpu: Enforcement,
}

impl Job {
    /// The host's pid of the room's pid 1.
    pub fn pid(&self) -> i32 {
        self.running.pid
    }

    pub fn pidfd(&self) -> &OwnedFd {
        &self.running.pidfd
    }

    /// The listeners at the job's doors, in the order of the spec; nothing accepts at them but the caller of this.
    pub fn doors(&mut self) -> Vec<TcpListener> {
        std::mem::take(&mut self.doors)
    }

    /// The other side of the job's terminal, if the spec asks for one; nobody else has it.
    pub fn terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Ways to what listens in the room, as many as the spec says.
    pub fn inlets(&self) -> Arc<Inlets> {
        Arc::clone(&self.inlets)
    }

    /// Kills the whole tree. `wait` then says so.
    pub fn kill(&self) {
        self.running.kill();
    }

    pub fn control(&self) -> JobControl {
        JobControl(Arc::clone(&self.running))
    }

    /// What the job uses now; `None` when it is on its way out.
    pub fn figures(&self) -> Option<JobFigures> {
        self.running.figures()
    }

    /// Waits until the command has ended and nothing that it started lives any more.
    pub async fn wait(mut self) -> Result<JobEnd, SandboxError> {
        let mut bytes = Vec::new();
        self.report.read_to_end(&mut bytes).await.map_err(SandboxError::io("reading a job's report"))?;
        let (exit, usage) = match serde_json::from_slice(&bytes) {
            Ok(JobReport::Ended { status, usage }) => (exit(status), usage),
            Ok(JobReport::Written) => (Exit::Code(0), Usage::default()),
            Ok(JobReport::Failed(failure)) => return Err(self.fault(failure)),
            Err(_) => {
                let (status, usage) = (&mut self.unreported).await.map_err(|_| SandboxError::Gone { who: "holder" })?;
                (exit(status), usage)
            }
        };
        self.over = true;
        let without_group = self.without_group;
        // One that ended by itself a moment earlier was not cut off.
        let cut = self.cut.lock().filter(|_| exit == Exit::Signal(libc::SIGKILL));
        let (memory, pids, cpu, out_of_memory) = match &mut self.keeper {
            Keeper::Holder { group, .. } => {
                let group = group.as_deref();
                let memory = group.and_then(Group::memory).unwrap_or(without_group);
                let pids = group.and_then(Group::pids).unwrap_or(Enforcement::Rlimit);
                let cpu = group.and_then(Group::cpu).unwrap_or(Enforcement::None);
                (memory, pids, cpu, group.is_some_and(Group::ran_out_of_memory))
            }
            Keeper::Engine(grave) if grave.memory == Enforcement::None => (without_group, grave.pids, grave.cpu, false),
            Keeper::Engine(grave) => (grave.memory, grave.pids, grave.cpu, grave.ran_out_of_memory()),
        };
        Ok(JobEnd {
            exit,
            timed_out: cut == Some(Cut::Time),
            out_of_memory: out_of_memory || cut == Some(Cut::Memory),
            overfull: match cut {
                Some(Cut::Disk(limit)) => Some(limit),
                _ => None,
            },
            usage,
            memory,
            pids,
            cpu,
        })
    }

    /// A failure in the caller's words.
    fn fault(&self, failure: Failure) -> SandboxError {
        let cause = io::Error::from_raw_os_error(failure.errno);
        match (&self.act, failure.step, failure.errno) {
            (Act::Exec { argv }, Step::Spawn, errno) => {
                let program = argv.first().map(|name| name.display().to_string()).unwrap_or_default();
                match errno {
                    libc::ENOENT | libc::ENOTDIR => SandboxError::NotFound { program },
                    _ => SandboxError::NotExecutable { program, cause },
                }
            }
            (Act::Write { path, .. } | Act::Delete { path } | Act::Move { from: path, .. }, step, libc::EOVERFLOW) if step.changes() => {
                SandboxError::ForeignOwner { path: path.clone() }
            }
            (Act::Write { path, .. }, Step::Write, _) => SandboxError::Write { path: path.clone(), cause },
            (Act::Delete { path }, Step::Delete, _) => SandboxError::Delete { path: path.clone(), cause },
            (Act::Move { from, to }, Step::Move, _) => SandboxError::Move { from: from.clone(), to: to.clone(), cause },
            _ => failure.into(),
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.watches.iter().for_each(AbortHandle::abort);
        if !self.over {
            self.dying.note(Arc::clone(&self.running.pidfd));
            self.kill();
        }
        if let Some(group) = &self.running.group {
            cgroup::remove_after(Arc::clone(group), Arc::clone(&self.running.pidfd));
        }
    }
}

fn exit(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) { Exit::Signal(libc::WTERMSIG(status)) } else { Exit::Code(libc::WEXITSTATUS(status)) }
}
