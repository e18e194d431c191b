//! `skep kernel run`: from an empty process to a serving kernel, and out again.

use crate::grpc::{GrpcFace, GrpcWish};
use crate::{connection, idle_memory};
use journal::{Faults, Options};
use kernel::{Fault, FaultKind, Home, Kernel, Tuning};
use report::WorkHold;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use world::{Remedy, limits};

/// More than any host needs, and few enough for programs that close all they could have.
const OPEN_FILES: u64 = 65_536;

/// How long whoever waits for an answer may take to hear it when the kernel stops.
const ANSWERED_MAX: Duration = Duration::from_millis(500);

/// What a kernel is told when it is started, beside its home.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where the process tree is served over gRPC; `config.yml` says it otherwise.
    pub grpc: Option<String>,
    /// Agents that the process tree begins with.
    pub startup: Option<PathBuf>,
}

/// Runs a kernel until it is told to stop. Says `ready` on stdout once it answers, or one JSON line with what, why and fix.
pub fn run(home: &Path, options: &RunOptions) -> ExitCode {
    run_until(home, options, None)
}

/// The same; it also stops when the pipe `input` ends, which is when whoever holds its other end is gone.
pub fn run_until_eof(home: &Path, options: &RunOptions, input: BorrowedFd<'_>) -> ExitCode {
    run_until(home, options, Some(input))
}

fn run_until(home: &Path, options: &RunOptions, input: Option<BorrowedFd<'_>>) -> ExitCode {
    match serve(home, options, input) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            // A command that started us reads JSON; a person at a terminal reads the other stream.
            let code = crate::rpc_error::start_code(&fault);
            if !std::io::stdout().is_terminal() {
                let told = serde_json::json!({
                    "what": fault.what, "why": fault.why, "fix": fault.fix, "remedy": fault.remedy, "code": code,
                });
                announce(&told.to_string());
            }
            world::log!("✗ {}\n  ↳ why  {}", fault.what, fault.why);
            if let Some(fix) = fault.advice() {
                world::log!("  ↳ fix  {fix}");
            }
            // Whoever runs the kernel itself has one that failed, not none that answers.
            ExitCode::from(if code == wire::ErrorCode::BadConfig { code.exit() } else { wire::ErrorCode::Internal.exit() })
        }
    }
}

fn serve(home: &Path, options: &RunOptions, input: Option<BorrowedFd<'_>>) -> Result<(), Fault> {
    // The launcher is forked first: forking later, from a process with threads, would be unsound.
    let launcher = sandbox::Launcher::start().map_err(|error| {
        let fault = Fault::new(FaultKind::Room, "the sandbox launcher did not start", &error);
        match error.hint() {
            Some(hint) => fault.fix(hint),
            None => fault.remedy(Remedy::RunDoctor),
        }
    })?;
    sandbox::share_heaps();
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // Each file operation may hold one thread while it lasts, and what it waits for another.
        .max_blocking_threads(256)
        // Before memory is given back for the second time: what a thread keeps for its next use goes back with it.
        .thread_keep_alive(idle_memory::THREADS_STAY)
        .enable_all()
        .build()
        .map_err(|error| Fault::new(FaultKind::Io, "cannot start threads", error))?;
    let home = Home::open(home)?;
    let input = input.map(|input| input.try_clone_to_owned()).transpose();
    let input = input.map_err(|error| Fault::new(FaultKind::Io, "cannot watch stdin", error))?;
    let served = runtime.block_on(serve_in(home, options, launcher, input));
    // What still runs in the background has been told to stop; nobody waits for it any longer.
    runtime.shutdown_timeout(Duration::from_millis(200));
    served
}

/// Each room's doors may have some two hundred connections, and the usual 1024 descriptors would not last for ten such rooms. Rooms have
/// a limit of their own.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    if current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
    {
        world::log!("skep: the kernel may open no more than {current:?} files: {error}");
    }
}

async fn serve_in(home: Home, options: &RunOptions, launcher: sandbox::Launcher, input: Option<OwnedFd>) -> Result<(), Fault> {
    let input = input.map(pipe::Receiver::from_owned_fd).transpose();
    let input = input.map_err(|error| Fault::new(FaultKind::Io, "stdin is not a pipe", error))?;
    let path = wire::socket_path(&home.path);
    let faults = Kill::from_env()?;
    let journal = Options { faults: faults.journal, ..Options::default() };
    let wanted = GrpcWish::read(&home.path, options)?;
    let tuning = Tuning { variables: variables(), hold: hold()?, startup: wanted.startup()?, ..Tuning::default() };
    let kernel = Kernel::boot_tuned(home, launcher, journal, faults.at, tuning).await?;
    let listener = listen(&path)?;
    let grpc = GrpcFace::open(&kernel, &wanted).await?;
    let stop = Arc::new(Notify::new());
    let (closing, is_closing) = watch::channel(false);
    announce("ready");
    let release = tokio::spawn(idle_memory::release(kernel.clone()));
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| Fault::new(FaultKind::Io, "cannot listen for signals", error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| Fault::new(FaultKind::Io, "cannot listen for signals", error))?;
    let reason = tokio::select! {
        () = connection::accept(listener, kernel.clone(), grpc.addresses(), stop.clone(), is_closing) => "the listener closed",
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        () = stop.notified() => "kernel.stop",
        () = end_of(input) => "the command that it ran for is gone",
    };
    release.abort();
    // The socket is removed first, so that no new command connects to a kernel that stops.
    let removed = std::fs::remove_file(&path);
    let stopped = tokio::time::timeout(Duration::from_millis(limits::STOP_MS_MAX), kernel.stop(reason)).await;
    grpc.close().await;
    // Whoever waits for an answer hears what became of it; nobody holds the end up.
    closing.send_replace(true);
    drop(tokio::time::timeout(ANSWERED_MAX, closing.closed()).await);
    removed.map_err(|error| Fault::new(FaultKind::Io, "the socket could not be removed", error))?;
    match stopped {
        Ok(stopped) => stopped,
        Err(_) => Err(Fault::new(FaultKind::Stopping, "the kernel did not stop in time", "something still holds the journal")),
    }
}

/// A variable that is not UTF-8 is not passed on.
fn variables() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// Refuses an address that the process tree cannot be served at.
pub fn check_grpc(address: &str) -> Result<(), wire::RpcError> {
    GrpcWish::check(address).map_err(crate::rpc_error::fault_error)
}

/// Refuses, in the words of the start that it would fail, settings that no kernel of this home could start with.
pub fn check_settings(home: &Path) -> Result<(), wire::RpcError> {
    kernel::check_settings(home, &variables()).map_err(|fault| {
        let code = crate::rpc_error::start_code(&fault);
        let error = wire::RpcError::new(code, fault.what.clone()).why(fault.why.clone());
        fault.advice().map_or(error.clone(), |fix| error.fix(fix))
    })
}

/// Comes back when nobody can write to the pipe any more; never without one.
async fn end_of(input: Option<pipe::Receiver>) {
    let Some(mut input) = input else { return std::future::pending().await };
    let mut ignored = [0; 64];
    while matches!(input.read(&mut ignored).await, Ok(1..)) {}
}

fn listen(path: &Path) -> Result<UnixListener, Fault> {
    wire::open_socket_dir(path).map_err(|error| Fault::new(FaultKind::Io, "the socket cannot be made safely", &error).fix(error.fix()))?;
    let fail =
        |verb: &str, error: std::io::Error| Fault::new(FaultKind::Io, format!("cannot {verb} the socket `{}`", path.display()), error);
    // INVARIANT: we hold the home's lock, so a socket that is there belongs to a kernel that is gone.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail("replace", error)),
        _ => {}
    }
    // Bound under a private name and renamed, so that nobody connects before the mode is right.
    let private = path.with_extension("new");
    match std::fs::remove_file(&private) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail("replace", error)),
        _ => {}
    }
    let listener = UnixListener::bind(&private).map_err(|error| fail("bind", error))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&private, mode).map_err(|error| fail("close", error))?;
    std::fs::rename(&private, path).map_err(|error| fail("place", error))?;
    Ok(listener)
}

/// Prints one line for the command that started us. That command may be gone; the kernel serves all the same.
fn announce(line: &str) {
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
        world::log!("skep: nobody reads stdout; `{line}` was not printed");
    }
}

/// Where a test wants long work to wait, from `SKEP_HOLD=work:n:PIPE`. Only the operator sets a kernel's environment.
fn hold() -> Result<Option<Arc<WorkHold>>, Fault> {
    let Some(text) = std::env::var_os("SKEP_HOLD") else { return Ok(None) };
    let text = text.to_string_lossy();
    let bad = || Fault::new(FaultKind::Io, "SKEP_HOLD is not understood", format!("`{text}` is not work:n:PIPE")).fix("unset SKEP_HOLD");
    WorkHold::parse(&text).map(|hold| Some(Arc::new(hold))).ok_or_else(bad)
}

/// Where a crash test wants this kernel to die, from `SKEP_FAULT=point:n`. Only the operator sets a kernel's environment.
struct Kill {
    journal: Faults,
    at: Option<(String, u64)>,
}

impl Kill {
    fn from_env() -> Result<Kill, Fault> {
        let mut kill = Kill { journal: Faults::default(), at: None };
        let Some(text) = std::env::var_os("SKEP_FAULT") else { return Ok(kill) };
        let text = text.to_string_lossy().into_owned();
        let bad = || Fault::new(FaultKind::Io, "SKEP_FAULT is not understood", format!("`{text}` is not point:n")).fix("unset SKEP_FAULT");
        let (point, nth) = text.split_once(':').ok_or_else(bad)?;
        let nth: u64 = nth.parse().map_err(|_| bad())?;
        match point {
            "before_write" => kill.journal.kill_at = Some((journal::Point::BeforeWrite, nth)),
            "before_sync" => kill.journal.kill_at = Some((journal::Point::BeforeSync, nth)),
            "before_ack" => kill.journal.kill_at = Some((journal::Point::BeforeAck, nth)),
            "base" | "merge" | "undo" | "keep" | "commit" | "builds" => kill.at = Some((point.to_owned(), nth)),
            _ => return Err(bad()),
        }
        Ok(kill)
    }
}
