//! Programs that end with the command that started them, and `skep supervise`, which stands between the two.
//!
//! A signal to `skep gateway run` alone would leave its program behind, so it passes signals on; and because nobody can pass on a SIGKILL,
//! the program's parent is a process that Linux tells of the command's death. **Invariant.** When the command is gone, however it went,
//! the program and whatever that started is told to end, and is killed if it does not.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult};
use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, kill_process, set_child_subreaper, set_parent_process_death_signal};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::Child;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use wire::ErrorCode;

/// How long a program has to end after it was told to.
const GRACE: Duration = Duration::from_secs(3);

/// Run a program that ends with another process
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct SuperviseArgs {
    /// The process that it ends with
    parent: i32,
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

impl SuperviseArgs {
    pub async fn run(self, _console: &Console) -> ExitResult {
        let failed = |error: std::io::Error| CommandError::new(ErrorCode::Internal, "the program cannot be run").why(error);
        let mut signals = Signals::open().map_err(failed)?;
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| failed(error.into()))?;
        keep_orphans().map_err(failed)?;
        // It may have died before Linux knew that we want to be told.
        if getppid().map(Pid::as_raw_pid) != Some(self.parent) {
            return Ok(exit_code(Signal::TERM.as_raw()));
        }
        let Some((program, arguments)) = self.program.split_first() else { return Ok(0) };
        let wrong = |error: std::io::Error| {
            let what = format!("cannot run `{}`", program.display());
            CommandError::new(ErrorCode::NotFound, what).why(error).fix("name a program that can be run")
        };
        let mut child = tokio::process::Command::new(program).args(arguments).spawn().map_err(wrong)?;
        tokio::select! {
            status = child.wait() => Ok(exit_of(status.map_err(failed)?)),
            told = signals.next() => {
                end_all(&mut child, told).await;
                Ok(exit_code(told.as_raw()))
            }
        }
    }
}

/// A program that ends with this command.
pub struct SupervisedProgram {
    supervisor: Child,
    signals: Signals,
}

impl SupervisedProgram {
    pub fn start(program: &[String], environment: Vec<(&'static str, String)>) -> std::io::Result<SupervisedProgram> {
        let signals = Signals::open()?;
        keep_orphans()?;
        let mut command = tokio::process::Command::new(std::env::current_exe()?);
        command.arg("supervise").arg(getpid().as_raw_pid().to_string()).arg("--").args(program).envs(environment);
        Ok(SupervisedProgram { supervisor: command.spawn()?, signals })
    }

    /// Waits for the program's end, passing on what this command is told. Gives the program's exit code.
    pub async fn wait(&mut self) -> std::io::Result<u8> {
        let mut told = None;
        let status = loop {
            tokio::select! {
                status = self.supervisor.wait() => break status?,
                signal = self.signals.next() => {
                    told = Some(signal);
                    send(self.supervisor.id(), signal);
                }
            }
        };
        // The supervisor itself was killed: what it held is ours now.
        if status.signal().is_some() {
            kill_all().await;
        }
        Ok(told.map_or_else(|| exit_of(status), |signal| exit_code(signal.as_raw())))
    }

    /// Tells the program to end, and waits until it has.
    pub async fn end(&mut self) -> std::io::Result<u8> {
        send(self.supervisor.id(), Signal::TERM);
        self.wait().await
    }
}

/// What a person, a script or a closing terminal may send.
struct Signals {
    terminate: Stream,
    hang_up: Stream,
    interrupt: Stream,
    quit: Stream,
}

impl Signals {
    fn open() -> std::io::Result<Signals> {
        let [terminate, hang_up, interrupt, quit] =
            [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()].map(signal);
        Ok(Signals { terminate: terminate?, hang_up: hang_up?, interrupt: interrupt?, quit: quit? })
    }

    /// The next signal that is for us to pass on. A key at the terminal reaches the program by itself, and it may mean to go on.
    async fn next(&mut self) -> Signal {
        loop {
            let (signal, typed) = tokio::select! {
                _ = self.terminate.recv() => (Signal::TERM, false),
                _ = self.hang_up.recv() => (Signal::HUP, false),
                _ = self.interrupt.recv() => (Signal::INT, true),
                _ = self.quit.recv() => (Signal::QUIT, true),
            };
            if !typed || !in_foreground() {
                return signal;
            }
        }
    }
}

/// Do keys of a terminal reach this process and its children?
fn in_foreground() -> bool {
    let input = std::io::stdin();
    input.is_terminal() && rustix::termios::tcgetpgrp(&input).is_ok_and(|group| group == getpgrp())
}

/// What loses its parent below us becomes our child, so that it is found.
fn keep_orphans() -> std::io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Tells the program and all below it, and kills what does not end.
async fn end_all(child: &mut Child, told: Signal) {
    tell_all(told);
    let over = async {
        drop(child.wait().await);
        while !below(getpid()).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(GRACE, over).await.is_err() {
        kill_all().await;
        drop(child.wait().await);
    }
}

/// Kills whatever is below us, and what that has started meanwhile, until nothing is left.
async fn kill_all() {
    let none_left = async {
        while !below(getpid()).is_empty() {
            tell_all(Signal::KILL);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // What another user's program became is not ours to kill.
    drop(tokio::time::timeout(GRACE, none_left).await);
}

fn tell_all(signal: Signal) {
    for pid in below(getpid()) {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

/// Every live process that descends from this one.
fn below(top: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let parents: HashMap<i32, i32> = entries.flatten().filter_map(|entry| parent(entry.file_name().to_str()?)).collect();
    let descends = |pid: &i32| std::iter::successors(parents.get(pid), |at| parents.get(at)).any(|at| *at == top.as_raw_pid());
    parents.keys().filter(|pid| descends(pid)).filter_map(|pid| Pid::from_raw(*pid)).collect()
}

/// A process and its parent; `None` for one that has ended and is not collected yet.
fn parent(pid: &str) -> Option<(i32, i32)> {
    let pid: i32 = pid.parse().ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    Some((pid, fields.next()?.parse().ok()?)).filter(|_| !matches!(state, "Z" | "X"))
}

fn send(pid: Option<u32>, signal: Signal) {
    if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

/// A signal's number above 128, as shells have it.
fn exit_of(status: ExitStatus) -> u8 {
    status.code().map_or_else(|| exit_code(status.signal().unwrap_or(0)), |code| u8::try_from(code).unwrap_or(1))
}

fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}
