//! Programs that run in no room, at the operator's word. They end with this process all the same.
//!
//! The system kills a child when the *thread* that made it ends, and threads of an async runtime come and go. So one thread makes all of them
//! and lives as long as the process. **Invariant.** No program outlives this process, however that ends.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock, mpsc};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::sync::{oneshot, watch};

use crate::cgroup::JobBranch;
use crate::spec::Exit;

/// One that runs. Whoever has it can end it; it is collected when it ends.
#[derive(Debug, Clone)]
pub struct HostProgram {
    pid: i32,
    /// It has ended and was collected: from then on its number may be another's.
    is_over: Arc<Mutex<bool>>,
}

/// What comes of a start: the program, its output, its error output, and how it ends.
pub struct HostStart {
    pub program: HostProgram,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub ended: watch::Receiver<Option<Exit>>,
}

type Order = (Command, oneshot::Sender<io::Result<Child>>);

impl HostProgram {
    /// Starts a program in a process group of its own, without input. Within a branch it shares its limits.
    pub async fn start(mut command: Command, branch: Option<&Arc<JobBranch>>) -> io::Result<HostStart> {
        let group = branch.map(|branch| branch.open_group()).transpose()?;
        if let Some(group) = &group {
            let joins: Vec<OwnedFd> = group.joins().iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
            // SAFETY: between fork and exec it makes system calls on descriptors that are open, and neither allocates nor takes a lock.
            unsafe {
                command.pre_exec(move || joins.iter().try_for_each(|join| rustix::io::write(join, b"0").map(drop).map_err(io::Error::from)))
            };
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let lost = || io::Error::other("the thread that starts programs is gone");
        let (made, child) = oneshot::channel();
        maker()?.lock().send((command, made)).map_err(|_| lost())?;
        let mut child = child.await.map_err(|_| lost())??;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else { return Err(lost()) };
        let program = HostProgram { pid, is_over: Arc::default() };
        let (end, ended) = watch::channel(None);
        let is_over = Arc::clone(&program.is_over);
        let collect = move || {
            // Nobody may want to know.
            let _ = end.send(Some(collect(child, &is_over)));
            drop(group);
        };
        std::thread::Builder::new().name("skep-wait".to_owned()).spawn(collect)?;
        Ok(HostStart { program, stdout: stdout.into(), stderr: stderr.into(), ended })
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub fn hold(&self) {
        self.signal(Signal::STOP);
    }

    pub fn release(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let is_over = self.is_over.lock();
        if let (false, Some(group)) = (*is_over, Pid::from_raw(self.pid)) {
            // A group that is gone needs nothing.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

/// Waits for the end of a program, and ends what it left in its group.
fn collect(mut child: Child, is_over: &Mutex<bool>) -> Exit {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It stays a zombie until the lock is held, so its number is nobody else's when a signal is sent.
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
    }
    let mut is_over = is_over.lock();
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    *is_over = true;
    match child.wait() {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Signal(libc::SIGKILL),
        },
        Err(_) => Exit::Signal(libc::SIGKILL),
    }
}

/// The way to the thread that makes all of them, which lives as long as the process.
fn maker() -> io::Result<&'static Mutex<mpsc::Sender<Order>>> {
    static MAKER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    if let Some(maker) = MAKER.get() {
        return Ok(maker);
    }
    let (orders, waiting) = mpsc::channel::<Order>();
    let parent = rustix::process::getpid();
    let make = move || {
        for (mut command, made) in waiting {
            let bound = move || {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // Our process may have ended before that.
                if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
            };
            // SAFETY: between fork and exec it makes two system calls, and neither allocates nor takes a lock.
            let command = unsafe { command.pre_exec(bound) };
            // Whoever gave up waiting has the program killed by nobody: it is dropped here, and so it is ended here.
            if let Err(Ok(mut child)) = made.send(command.spawn()) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    };
    // Two that come at once make two threads; one of them has no orders and ends.
    std::thread::Builder::new().name("skep-start".to_owned()).spawn(make)?;
    Ok(MAKER.get_or_init(|| Mutex::new(orders)))
}
