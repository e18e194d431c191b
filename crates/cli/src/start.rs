//! Starts the kernel on demand, exactly one however many commands ask at once, and stops it.
//!
//! Connect; else take the lock, look again, start, wait for its first line. **Invariant.** Only the holder of `run/start.lock` starts.

use crate::command_error::CommandError;
use crate::{home, remedy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use wire::method::Nothing;
use wire::table::{KernelStatus, KernelStop, MethodId};
use wire::{ClientError, ErrorCode, KernelClient, Remedy};

/// A kernel that has to fold a long journal needs a while; one that needs longer is stuck.
const READY_MS_MAX: u64 = 60_000;
/// A kernel is down within ten seconds of being told; this is for one that is not.
const GONE_S_MAX: i64 = 15;
const LOCK_STEP_MS: u64 = 5;
/// The kernel's first line fits in here: `ready`, or why it did not start.
const FIRST_LINE_BYTES_MAX: u64 = 64 * 1024;

/// How long a kernel lives that a command starts.
#[derive(Clone, Copy, Debug)]
pub enum KernelLife<'a> {
    /// Until it is told to stop.
    OfItsOwn,
    /// As long as this command, however that ends; when nobody else can, it removes this folder.
    OfThisCommand { removes: Option<&'a Path> },
}

/// How a kernel that is started serves the process tree; its settings say it otherwise.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    pub grpc: Option<String>,
    pub startup: Option<PathBuf>,
}

/// A connection to the kernel of `home`, which is started if there is none.
pub async fn connect(home: &Path) -> Result<KernelClient, CommandError> {
    connect_for(home, KernelLife::OfItsOwn).await
}

/// The same; a kernel that is started gets these options.
async fn connect_with(home: &Path, tree: &TreeOptions) -> Result<KernelClient, CommandError> {
    connect_to(home, KernelLife::OfItsOwn, tree).await
}

/// The same; a kernel that is started lives for so long.
pub async fn connect_for(home: &Path, life: KernelLife<'_>) -> Result<KernelClient, CommandError> {
    connect_to(home, life, &TreeOptions::default()).await
}

async fn connect_to(home: &Path, life: KernelLife<'_>, tree: &TreeOptions) -> Result<KernelClient, CommandError> {
    if let Some(client) = running(home).await? {
        return Ok(client);
    }
    home::open(home)?;
    let _lock = match lock(home).await? {
        StartLock::Lock(lock) => lock,
        StartLock::Kernel(client) => return Ok(*client),
    };
    if let Some(client) = running(home).await? {
        return Ok(client);
    }
    start(home, life, tree).await?;
    Ok(KernelClient::connect(home).await?)
}

/// The kernel that runs already, if one does.
pub async fn running(home: &Path) -> Result<Option<KernelClient>, CommandError> {
    match KernelClient::connect(home).await {
        Ok(client) => Ok(Some(client)),
        Err(ClientError::Absent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Does a kernel answer? One that hangs up on a plain question is just ending: a process that was killed lets go of its socket a moment after that.
pub async fn is_answered(home: &Path) -> Result<bool, CommandError> {
    let Some(mut kernel) = running(home).await? else { return Ok(false) };
    match kernel.call::<KernelStatus>(&Nothing {}).await {
        Ok(_) => Ok(true),
        Err(ClientError::Broken { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Starts a kernel with these options, unless one answers meanwhile. Done when one does.
pub async fn until_answered(home: &Path, tree: &TreeOptions) -> Result<(), CommandError> {
    let asked = Instant::now();
    loop {
        let mut kernel = connect_with(home, tree).await?;
        match kernel.call::<KernelStatus>(&Nothing {}).await {
            Ok(_) => return Ok(()),
            Err(ClientError::Broken { .. }) if asked.elapsed() < Duration::from_millis(READY_MS_MAX) => {
                tokio::time::sleep(Duration::from_millis(LOCK_STEP_MS)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Stops the kernel and waits until its process is gone.
pub async fn stop(kernel: &mut KernelClient) -> Result<(), ClientError> {
    let os_pid = kernel.call::<KernelStatus>(&Nothing {}).await?.os_pid;
    // Opened while the kernel still answers, so that it cannot be another process with the same number.
    let process = i32::try_from(os_pid).ok().and_then(Pid::from_raw).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    match kernel.call::<KernelStop>(&Nothing {}).await {
        // It may be gone before its answer is; that it is gone is looked at below.
        Ok(_) | Err(ClientError::Broken { .. }) => {}
        Err(error) => return Err(error),
    }
    loop {
        match kernel.next_note().await {
            Ok(Some(_)) => {}
            // It closes the stream when nothing is left to answer; a broken one says the same.
            Ok(None) | Err(ClientError::Broken { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    let Some(process) = process else { return Ok(()) };
    match tokio::task::spawn_blocking(move || has_exited(&process)).await {
        Ok(true) => Ok(()),
        _ => Err(ClientError::Late { method: MethodId::KernelStop.name(), ms: GONE_S_MAX.unsigned_abs() * 1_000 }),
    }
}

/// Waits for the end of a process. A descriptor of it becomes readable then, whoever its parent is.
fn has_exited(process: &OwnedFd) -> bool {
    let limit = Timespec { tv_sec: GONE_S_MAX, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)), Ok(1..))
}

enum StartLock {
    Lock(File),
    /// Whoever held it has started a kernel meanwhile.
    Kernel(Box<KernelClient>),
}

async fn lock(home: &Path) -> Result<StartLock, CommandError> {
    let path = home.join("run/start.lock");
    let file = home::private_file(&path, false)?;
    let asked = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(StartLock::Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(CommandError::new(ErrorCode::Unavailable, format!("cannot lock `{}`", path.display())).why(error)),
        }
        if let Some(client) = running(home).await? {
            return Ok(StartLock::Kernel(Box::new(client)));
        }
        if asked.elapsed() > Duration::from_millis(READY_MS_MAX) {
            return Err(CommandError::new(ErrorCode::Unavailable, "the kernel does not start")
                .why(format!("another command holds `{}` and starts it for over {} s", path.display(), READY_MS_MAX / 1_000))
                .fix("end that command, then try again"));
        }
        tokio::time::sleep(Duration::from_millis(LOCK_STEP_MS)).await;
    }
}

/// Why a kernel did not start, in its own words.
#[derive(Deserialize)]
struct StartFailure {
    what: String,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    fix: Option<String>,
    #[serde(default)]
    remedy: Option<Remedy>,
    #[serde(default)]
    code: Option<ErrorCode>,
}

/// A kernel that has not said yet whether it is ready. Dropped before that it is killed: nobody would know that it runs.
struct StartingKernel {
    child: Child,
    has_answered: bool,
}

impl Drop for StartingKernel {
    fn drop(&mut self) {
        if !self.has_answered {
            // It may have ended by itself.
            let _ = self.child.kill().and_then(|()| self.child.wait());
        }
    }
}

async fn start(home: &Path, life: KernelLife<'_>, tree: &TreeOptions) -> Result<(), CommandError> {
    let log = home.join("run/kernel.log");
    let fail = |why: String| {
        CommandError::new(ErrorCode::Unavailable, "the kernel does not start").why(why).fix(format!("read `{}`", log.display()))
    };
    let program = std::env::current_exe().map_err(|error| fail(format!("cannot find the program `skep`: {error}")))?;
    let mut command = Command::new(program);
    // The kernel outlives this shell, and what a git hook points at here is none of its business.
    std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command.args(["kernel", "run", "--detached"]);
    if let Some(address) = &tree.grpc {
        command.arg("--grpc").arg(address);
    }
    if let Some(file) = &tree.startup {
        command.arg("--startup").arg(file);
    }
    let input = match life {
        KernelLife::OfItsOwn => Stdio::null(),
        KernelLife::OfThisCommand { removes } => {
            command.arg("--until-eof");
            if let Some(folder) = removes {
                command.arg("--removes").arg(folder);
            }
            Stdio::piped()
        }
    };
    let mut child = command
        .env("SKEP_HOME", home)
        .current_dir("/")
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(home::private_file(&log, true)?)
        .spawn()
        .map_err(|error| fail(error.to_string()))?;
    // Never closed by us: its end is the end of this process, also by SIGKILL.
    std::mem::forget(child.stdin.take());
    let mut starting = StartingKernel { child, has_answered: false };
    let stdout = starting.child.stdout.take().ok_or_else(|| fail("it has no output".into()))?;
    let stdout = pipe::Receiver::from_owned_fd(stdout.into()).map_err(|error| fail(error.to_string()))?;
    let mut line = String::new();
    let mut reader = BufReader::new(stdout.take(FIRST_LINE_BYTES_MAX));
    let answer = tokio::time::timeout(Duration::from_millis(READY_MS_MAX), reader.read_line(&mut line)).await;
    // One that is late goes on with its long journal, and the next command finds it.
    starting.has_answered = true;
    match answer {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(fail(error.to_string())),
        Err(_) => return Err(fail(format!("it was not ready within {} s", READY_MS_MAX / 1_000))),
    }
    match line.trim() {
        "ready" => Ok(()),
        "" => Err(fail(match starting.child.wait() {
            Ok(status) => format!("it ended with {status} before it printed anything"),
            Err(error) => error.to_string(),
        })),
        line => Err(match serde_json::from_str::<StartFailure>(line) {
            Ok(line) => {
                let fix = remedy::fix(line.fix.as_deref(), line.remedy.as_ref());
                CommandError { code: line.code.unwrap_or(ErrorCode::Unavailable), what: line.what, why: line.why, fix }
            }
            Err(_) => fail(format!("it said `{line}`")),
        }),
    }
}
