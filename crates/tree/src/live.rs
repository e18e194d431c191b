//! Programs that run now: how each is reached, and how it ends.
//!
//! **Invariant.** Nothing of a program outlives the value that stands for it.

use crate::Tree;
use hive::{AgentLink, ServerHandle};
use parking_lot::Mutex;
use sandbox::{HostProgram, JobControl, OutputTail};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use world::Pid;

/// Lines of a program's output that the record of its crash has.
const LAST_LINES: usize = 20;
/// Bytes of them.
const LAST_BYTES: usize = 4_000;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramEnd {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// What can be done to a program from outside.
pub(crate) enum ProgramControl {
    Room(JobControl),
    Host(HostProgram),
}

impl ProgramControl {
    pub fn os_pid(&self) -> i32 {
        match self {
            ProgramControl::Room(job) => job.pid(),
            ProgramControl::Host(program) => program.pid(),
        }
    }

    pub fn kill(&self) {
        match self {
            ProgramControl::Room(job) => job.kill(),
            ProgramControl::Host(program) => program.kill(),
        }
    }

    /// Asks it to end itself.
    pub fn terminate(&self) {
        match self {
            ProgramControl::Room(job) => {
                for process in job.processes().into_iter().filter_map(rustix::process::Pid::from_raw) {
                    // One that is gone needs nothing.
                    let _gone = rustix::process::kill_process(process, rustix::process::Signal::TERM);
                }
            }
            ProgramControl::Host(program) => program.terminate(),
        }
    }

    pub async fn hold(&self) -> Result<(), sandbox::SandboxError> {
        match self {
            ProgramControl::Room(job) => job.hold().await,
            ProgramControl::Host(program) => {
                program.hold();
                Ok(())
            }
        }
    }

    pub fn release(&self) {
        match self {
            ProgramControl::Room(job) => job.release(),
            ProgramControl::Host(program) => program.release(),
        }
    }
}

/// A program that runs and that no process stands for yet. Dropped, it is killed.
pub(crate) struct ProgramGuard(pub Option<Arc<ProgramControl>>);

impl Drop for ProgramGuard {
    fn drop(&mut self) {
        if let Some(control) = self.0.take() {
            control.kill();
        }
    }
}

/// The end of what a program wrote on each stream.
#[derive(Clone, Default)]
pub(crate) struct ProgramOutput {
    pub stdout: Arc<OutputTail>,
    pub stderr: Arc<OutputTail>,
}

impl ProgramOutput {
    /// The last lines of its error output, or of its output where it has none.
    pub fn last_lines(&self) -> String {
        let lines = self.stderr.lines(LAST_LINES);
        let lines = if lines.is_empty() { self.stdout.lines(LAST_LINES) } else { lines };
        let text = lines.join("\n");
        text[text.ceil_char_boundary(text.len().saturating_sub(LAST_BYTES))..].to_owned()
    }
}

/// Reads a stream to its end, so that whoever writes it never waits. The last of it is kept.
pub(crate) async fn drain(mut stream: impl AsyncRead + Unpin, tail: Arc<OutputTail>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(got @ 1..) = stream.read(&mut buffer).await {
        tail.add(&buffer[..got]);
    }
}

/// A program that is ready.
pub(crate) struct LiveProgram {
    pub pid: Pid,
    pub incarnation: u64,
    pub link: AgentLink,
    pub output: ProgramOutput,
    pub control: Arc<ProgramControl>,
    pub ended: watch::Receiver<Option<ProgramEnd>>,
    /// We bring its end about: it is no crash.
    is_ending: AtomicBool,
    /// It is held still by a signal.
    is_held: AtomicBool,
    /// Answers what it asks of the kernel.
    _core: Option<ServerHandle>,
    guard: Mutex<ProgramGuard>,
}

impl LiveProgram {
    pub fn new(
        pid: Pid,
        incarnation: u64,
        link: AgentLink,
        output: ProgramOutput,
        ended: watch::Receiver<Option<ProgramEnd>>,
        core: Option<ServerHandle>,
        mut guard: ProgramGuard,
    ) -> Option<LiveProgram> {
        let control = guard.0.take()?;
        Some(LiveProgram {
            pid,
            incarnation,
            link,
            output,
            control: Arc::clone(&control),
            ended,
            is_ending: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            _core: core,
            guard: Mutex::new(ProgramGuard(Some(control))),
        })
    }

    /// From here on its end is our doing.
    pub fn begin_end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    pub fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }

    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// How it ended, once it has.
    pub async fn end(&self) -> ProgramEnd {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        // Whoever watched it is gone, and the program with it.
        self.guard.lock().0 = None;
        end.unwrap_or(ProgramEnd { code: None, signal: None })
    }

    /// The same within a time.
    pub async fn end_within(&self, time: Duration) -> Option<ProgramEnd> {
        tokio::time::timeout(time, self.end()).await.ok()
    }
}

impl Tree {
    /// The program of a process, if it runs.
    pub(crate) fn live(&self, pid: Pid) -> Option<Arc<LiveProgram>> {
        self.live.lock().get(&pid).cloned()
    }

    /// The process whose program an operating-system process is, or is below.
    pub fn process_of(&self, os_pid: i32) -> Option<Pid> {
        let live: Vec<(i32, Pid)> = self.live.lock().values().map(|live| (live.control.os_pid(), live.pid)).collect();
        let starting: Vec<(i32, Pid)> =
            self.starting.lock().iter().filter_map(|(pid, start)| start.os_pid.lock().map(|os_pid| (os_pid, *pid))).collect();
        let mut at = os_pid;
        // A chain that never ends is a lie of /proc.
        for _ in 0..64 {
            if let Some((_, pid)) = live.iter().chain(&starting).find(|(of, _)| *of == at) {
                return Some(*pid);
            }
            at = parent_of(at).filter(|parent| *parent > 1)?;
        }
        None
    }
}

fn parent_of(os_pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{os_pid}/stat")).ok()?;
    // The name may hold anything, so what counts stands behind its last parenthesis.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
