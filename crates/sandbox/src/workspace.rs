//! The kernel's side of a holder: a workspace and its jobs.
//!
//! **Invariant.** No job outlives the value that stands for it: dropping a [`Job`], the future of `run`, or the [`Workspace`]
//! kills what is behind it, also when its start is not confirmed yet.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::cgroup::{Cgroups, Group};
use crate::door;
use crate::fault::{Failure, SandboxError, Step};
use crate::link::{Link, Place, Unreported};
use crate::order::{ActOrder, Bytes, Report, SpawnOrder};
use crate::output;
use crate::spec::{Act, Door, Enforcement, Exit, JobSpec, Outcome, Stdio, Usage};
use crate::sys;

/// An open workspace. Dropping it ends its holder, every job and the mount; the files in its work directory stay.
#[derive(Debug)]
pub struct Workspace {
    room: Room,
    root: OwnedFd,
    project: PathBuf,
    work: PathBuf,
}

/// Where its jobs come from.
#[derive(Debug)]
enum Room {
    Held(Holder),
    /// An engine makes a container for each.
    Contained(crate::oci::Room),
}

#[derive(Debug)]
struct Holder {
    link: Arc<Link>,
    pid: i32,
    pidfd: OwnedFd,
    cgroups: Arc<Cgroups>,
}

impl Workspace {
    /// Waits until the holder has built its room.
    pub(crate) async fn join(
        socket: OwnedFd,
        pidfd: OwnedFd,
        pid: i32,
        project: PathBuf,
        work: PathBuf,
        cgroups: Arc<Cgroups>,
    ) -> Result<Workspace, SandboxError> {
        let holder = KillOnDrop(Some(pidfd));
        let (link, root) = Link::open(socket).await?;
        let pidfd = holder.keep().ok_or(SandboxError::Gone { who: "holder" })?;
        Ok(Workspace { room: Room::Held(Holder { link, pid, pidfd, cgroups }), root, project, work })
    }

    pub(crate) fn contained(room: crate::oci::Room, root: OwnedFd, project: PathBuf, work: PathBuf) -> Workspace {
        Workspace { room: Room::Contained(room), root, project, work }
    }

    /// The merged project as a directory descriptor: a read through it sees what jobs wrote. Valid while the workspace is open.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// The holder's process id; containers have none.
    pub fn holder_pid(&self) -> Option<i32> {
        match &self.room {
            Room::Held(holder) => Some(holder.pid),
            Room::Contained(_) => None,
        }
    }

    /// The directory with `upper/`, for [`crate::changes()`].
    pub fn work(&self) -> &Path {
        &self.work
    }

    pub fn project(&self) -> &Path {
        &self.project
    }

    /// What jobs have changed so far.
    pub async fn changes(&self) -> Result<crate::Changes, SandboxError> {
        let (project, work) = (self.project.clone(), self.work.clone());
        let walked = tokio::task::spawn_blocking(move || crate::changes(&project, &work)).await;
        walked.map_err(io::Error::other).and_then(|result| result).map_err(SandboxError::io("reading the changes"))
    }

    /// Runs a job to its end and collects its output. Nobody listens at its doors.
    pub async fn run(&self, spec: JobSpec, stdin: Option<Vec<u8>>) -> Result<Outcome, SandboxError> {
        self.run_attended(spec, stdin, drop).await
    }

    /// Runs a job to its end and collects its output. `attend` gets the job's doors as soon as it has started.
    pub async fn run_attended(
        &self,
        spec: JobSpec,
        stdin: Option<Vec<u8>>,
        attend: impl FnOnce(Vec<TcpListener>),
    ) -> Result<Outcome, SandboxError> {
        let began = Instant::now();
        let output_max = spec.output_max;
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let io = |error: rustix::io::Errno| SandboxError::io("making a pipe")(error.into());
        let (out_read, out_write) = pipe().map_err(io)?;
        let (err_read, err_write) = pipe().map_err(io)?;
        let (input, feed) = match stdin {
            Some(bytes) => {
                let (read, write) = pipe().map_err(io)?;
                (Stdio::Fd(read), Some((write, bytes)))
            }
            None => (Stdio::Null, None),
        };
        let mut job = self.spawn(spec, input, Stdio::Fd(out_write), Stdio::Fd(err_write)).await?;
        attend(job.doors());
        let streams = SandboxError::io("reading a job's output");
        let (ended, stdout, stderr, fed) =
            tokio::join!(job.wait(), output::collect(out_read, output_max), output::collect(err_read, output_max), output::feed(feed),);
        // Why a job did not start says more than what that did to its streams.
        let ended = ended?;
        let ((stdout, out_cut), (stderr, err_cut)) = match (stdout, stderr, fed) {
            (Ok(stdout), Ok(stderr), Ok(())) => (stdout, stderr),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => return Err(streams(error)),
        };
        Ok(Outcome {
            exit: ended.exit,
            stdout,
            stderr,
            truncated: out_cut || err_cut,
            timed_out: ended.timed_out,
            out_of_memory: ended.out_of_memory,
            duration: began.elapsed(),
            usage: ended.usage,
            memory: ended.memory,
            pids: ended.pids,
        })
    }

    /// Starts a job whose streams are the caller's.
    pub async fn spawn(&self, spec: JobSpec, stdin: Stdio, stdout: Stdio, stderr: Stdio) -> Result<Job, SandboxError> {
        let order = order(&spec)?;
        let (report, report_write) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| SandboxError::io("making a pipe")(error.into()))?;
        let report = pipe::Receiver::from_owned_fd(report).map_err(SandboxError::io("watching a pipe"))?;
        let mut files = Vec::new();
        for stream in [stdin, stdout, stderr] {
            files.push(open_stream(stream).map_err(SandboxError::io("opening a stream"))?);
        }
        files.push(report_write);
        let Underway { pid, pidfd, doors, unreported, keeper } = match &self.room {
            Room::Held(holder) => holder.start(order, files).await?,
            Room::Contained(room) => room.start(order, files).await?,
        };
        let pidfd = Arc::new(pidfd);
        let unopened = KillOnDrop(Some(Arc::clone(&pidfd)));
        let doors = door::listeners(doors, spec.doors.len())?;
        unopened.keep();
        let timed_out = Arc::new(AtomicBool::new(false));
        let timer = spec.limits.wall.map(|wall| {
            let (pidfd, timed_out) = (Arc::clone(&pidfd), Arc::clone(&timed_out));
            tokio::spawn(async move {
                tokio::time::sleep(wall).await;
                timed_out.store(true, Ordering::Relaxed);
                let _ = rustix::process::pidfd_send_signal(&*pidfd, Signal::KILL);
            })
            .abort_handle()
        });
        let data_limited = spec.limits.data_bytes.is_some();
        Ok(Job { pid, doors, act: spec.act, pidfd, report, unreported, timed_out, timer, keeper, data_limited, over: false })
    }

    /// Ends the workspace and waits until its jobs, its holder and its mount are gone, so that it can be opened again.
    pub async fn close(mut self) -> Result<(), SandboxError> {
        let pidfd = match &mut self.room {
            Room::Contained(room) => return room.close().await,
            Room::Held(holder) => {
                holder.link.hang_up();
                holder.pidfd.try_clone().and_then(sys::watch).map_err(SandboxError::io("watching a holder"))?
            }
        };
        // A holder that does not end by itself is killed, when `self` is dropped.
        let _ = tokio::time::timeout(Workspace::CLOSE_MAX, pidfd.readable()).await;
        drop(self);
        pidfd.readable().await.map(drop).map_err(SandboxError::io("watching a holder"))
    }

    /// Killing a large tree takes milliseconds; what takes longer hangs.
    const CLOSE_MAX: Duration = Duration::from_secs(5);
}

impl Holder {
    async fn start(&self, mut order: SpawnOrder, files: Vec<OwnedFd>) -> Result<Underway, SandboxError> {
        let group = self.cgroups.open(&order.limits);
        let (place, started, unreported) = self.link.expect()?;
        order.id = place.id;
        let joins = group.iter().flat_map(Group::joins);
        let all: Vec<BorrowedFd<'_>> = files.iter().chain(joins).map(AsFd::as_fd).collect();
        self.link.send(&order, &all).await?;
        drop(files);
        match started.await {
            Ok(Ok((pid, pidfd, doors))) => Ok(Underway { pid, pidfd, doors, unreported, keeper: Keeper::Holder { group, _place: place } }),
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(SandboxError::Gone { who: "holder" }),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Jobs asked to die with their holder, so killing it reaches them all. The reader ends with the holder's socket.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

/// A job whose pid 1 has started.
pub(crate) struct Underway {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) doors: Vec<OwnedFd>,
    /// How pid 1 ended, when it did without a report.
    pub(crate) unreported: oneshot::Receiver<Unreported>,
    pub(crate) keeper: Keeper,
}

/// Who holds a job's limits and buries it.
#[derive(Debug)]
pub(crate) enum Keeper {
    Holder { group: Option<Group>, _place: Place },
    Engine(crate::oci::Grave),
}

/// A job that runs. Its streams end when it does. Dropping it kills it with everything it started.
#[derive(Debug)]
pub struct Job {
    pid: i32,
    doors: Vec<TcpListener>,
    act: Act,
    pidfd: Arc<OwnedFd>,
    report: pipe::Receiver,
    unreported: oneshot::Receiver<Unreported>,
    timed_out: Arc<AtomicBool>,
    timer: Option<AbortHandle>,
    keeper: Keeper,
    data_limited: bool,
    /// It ended by itself, so there is nothing to kill.
    over: bool,
}

/// How a job ended and what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub exit: Exit,
    pub timed_out: bool,
    pub out_of_memory: bool,
    pub usage: Usage,
    pub memory: Enforcement,
    pub pids: Enforcement,
}

impl Job {
    /// The host's pid of the room's pid 1.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// The listeners at the job's doors, in the order of the spec; nothing accepts at them but the caller of this.
    pub fn doors(&mut self) -> Vec<TcpListener> {
        std::mem::take(&mut self.doors)
    }

    /// Kills the whole tree. `wait` then says so.
    pub fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&*self.pidfd, Signal::KILL);
    }

    /// Waits until the command has ended and nothing that it started lives any more.
    pub async fn wait(mut self) -> Result<Ended, SandboxError> {
        let mut bytes = Vec::new();
        self.report.read_to_end(&mut bytes).await.map_err(SandboxError::io("reading a job's report"))?;
        let (exit, usage) = match serde_json::from_slice(&bytes) {
            Ok(Report::Ended { status, usage }) => (exit(status), usage),
            Ok(Report::Written) => (Exit::Code(0), Usage::default()),
            Ok(Report::Failed(failure)) => return Err(self.fault(failure)),
            Err(_) => {
                let (status, usage) = (&mut self.unreported).await.map_err(|_| SandboxError::Gone { who: "holder" })?;
                (exit(status), usage)
            }
        };
        self.over = true;
        let without_group = if self.data_limited { Enforcement::Rlimit } else { Enforcement::None };
        let (memory, pids, out_of_memory) = match &mut self.keeper {
            Keeper::Holder { group: Some(group), .. } => (group.enforced().0, group.enforced().1, group.ran_out_of_memory()),
            Keeper::Holder { group: None, .. } => (without_group, Enforcement::Rlimit, false),
            Keeper::Engine(grave) if grave.memory == Enforcement::None => (without_group, grave.pids, false),
            Keeper::Engine(grave) => (grave.memory, grave.pids, grave.ran_out_of_memory()),
        };
        Ok(Ended {
            exit,
            timed_out: self.timed_out.load(Ordering::Relaxed) && exit == Exit::Signal(libc::SIGKILL),
            out_of_memory,
            usage,
            memory,
            pids,
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
        if let Some(timer) = &self.timer {
            timer.abort();
        }
        if !self.over {
            self.kill();
        }
        if let Keeper::Holder { group, .. } = &mut self.keeper
            && let Some(group) = group.take()
        {
            group.remove_after(Arc::clone(&self.pidfd));
        }
    }
}

/// A holder whose workspace, or a job whose value, never came to be.
struct KillOnDrop<T: AsFd>(Option<T>);

impl<T: AsFd> KillOnDrop<T> {
    fn keep(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: AsFd> Drop for KillOnDrop<T> {
    fn drop(&mut self) {
        if let Some(pidfd) = &self.0 {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}

fn exit(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) { Exit::Signal(libc::WTERMSIG(status)) } else { Exit::Code(libc::WEXITSTATUS(status)) }
}

fn open_stream(stream: Stdio) -> io::Result<OwnedFd> {
    match stream {
        Stdio::Fd(fd) => Ok(fd),
        Stdio::Null => Ok(std::fs::File::options().read(true).write(true).open("/dev/null")?.into()),
    }
}

/// The order for a job; its id comes with its place on the list.
fn order(spec: &JobSpec) -> Result<SpawnOrder, SandboxError> {
    let bad = |why| Err(SandboxError::BadJob { why });
    if spec.profile == crate::spec::Profile::Strict {
        return bad("no program starts under `strict`; a child of ours loads it by itself");
    }
    let has_nul = |text: &OsString| text.as_bytes().contains(&0);
    if spec.env.iter().any(|(key, value)| key.is_empty() || key.as_bytes().contains(&b'=') || has_nul(key) || has_nul(value)) {
        return bad("a variable has an empty name, or a byte that it cannot hold");
    }
    if spec.cwd.is_absolute() || spec.cwd.components().any(|part| part == Component::ParentDir) {
        return bad("the working directory must lie in the project");
    }
    let ports: std::collections::BTreeSet<u16> = spec.doors.iter().map(|door| door.port).collect();
    if ports.len() != spec.doors.len() || ports.len() > Door::MAX || ports.contains(&0) {
        return bad("its doors are too many, or two have one port, or one has none");
    }
    let (act, cwd) = match &spec.act {
        Act::Exec { argv } if argv.first().is_none_or(|name| name.is_empty()) => return bad("the argument list names no program"),
        Act::Exec { argv } if argv.iter().any(has_nul) => return bad("an argument holds a zero byte"),
        Act::Exec { argv } => (ActOrder::Exec { argv: argv.iter().cloned().map(Bytes::from).collect() }, spec.cwd.clone()),
        // Always relative to the project, wherever a command would run.
        Act::Write { path, mode } => (ActOrder::Write { path: path.clone().into(), mode: *mode }, PathBuf::new()),
        Act::Delete { path } => (ActOrder::Delete { path: path.clone().into() }, PathBuf::new()),
        Act::Move { from, to } => (ActOrder::Move { from: from.clone().into(), to: to.clone().into() }, PathBuf::new()),
    };
    let env = spec.env.iter().map(|(key, value)| (key.clone().into(), value.clone().into())).collect();
    let doors = spec.doors.clone();
    Ok(SpawnOrder { id: 0, act, env, cwd: cwd.into(), profile: spec.profile, limits: spec.limits.clone(), doors })
}
