//! A workspace's jobs, each in a container of its own.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::sync::{oneshot, watch};

use super::Inner;
use super::container::{Container, made_shares};
use super::guest::{self, GuestOrder, GuestReply};
use super::link::{Listener, Socket};
use crate::dying::{Dying, UnclaimedJob};
use crate::epoll::EpollGauge;
use crate::fault::SandboxError;
use crate::launcher::Mounted;
use crate::link::Unreported;
use crate::mount::{self, Private};
use crate::order::{JobOrder, MaskOrder, OpenOrder, Uncovered};
use crate::packet;
use crate::spec::{Enforcement, Usage};
use crate::sys;
use crate::workspace::{Keeper, Underway};

/// A container is there in a fifth of a second; on a loaded machine in a few.
const START_MAX: Duration = Duration::from_secs(60);
/// How often a container that does not answer is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// An engine hears of an end a moment after us.
const END_MAX: Duration = Duration::from_secs(5);
/// Names of folders with a container's socket.
const LINKS: &str = "links";

#[derive(Debug)]
pub(crate) struct ContainerRoom {
    engine: Arc<Inner>,
    image: String,
    order: OpenOrder,
    /// The user namespace of its jobs.
    users: OwnedFd,
    steward: OwnedFd,
    next: AtomicU64,
    jobs: Arc<Jobs>,
    dying: Dying,
    /// Containers whose jobs were given up before they started. Each channel closes when its container is gone.
    abandoned: Mutex<Vec<watch::Receiver<()>>>,
}

/// Who is to be killed, and how many are not buried yet.
#[derive(Debug)]
struct Jobs {
    running: Mutex<HashMap<u64, Arc<OwnedFd>>>,
    unburied: watch::Sender<usize>,
}

impl ContainerRoom {
    pub(super) fn new(engine: Arc<Inner>, image: String, mounted: Mounted) -> ContainerRoom {
        let Mounted { order, users, steward, .. } = mounted;
        let jobs = Jobs { running: Mutex::default(), unburied: watch::Sender::new(0) };
        ContainerRoom {
            engine,
            image,
            order,
            users,
            steward,
            next: AtomicU64::new(1),
            jobs: Arc::new(jobs),
            dying: Dying::default(),
            abandoned: Mutex::default(),
        }
    }

    /// Starts a job in a new container. `files` are its streams and the report.
    pub(crate) async fn start(&self, mut job: JobOrder, files: Vec<OwnedFd>) -> Result<Underway, SandboxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let link = Listener::open(self.folder(id)).map_err(SandboxError::io("making a container's socket"))?;
        let private = Private::mount(self.order.work.path(), id, &job.limits).map_err(SandboxError::io("mounting a job's /tmp"))?;
        let (gone, still_there) = watch::channel(());
        let abandoned = Abandoned { of: &self.abandoned, container: Some(still_there) };
        let container = Container::start(&self.engine, &self.image, &self.order, &job, (link.folder(), &private), gone).await?;
        let socket = self.answer(&link, &container).await?;
        drop(link);
        let (pid, pidfd) = self.first_process(&socket)?;
        let (memory, limited) = (job.limits.memory_bytes, |limited| if limited { Enforcement::Cgroup } else { Enforcement::None });
        let grave = Grave {
            memory: limited(memory.is_some()),
            pids: Enforcement::Cgroup,
            cpu: limited(job.limits.cpu_milli.is_some()),
            shortage: Arc::new(Shortage { counter: memory.and_then(|_| counter(pid)), seen: AtomicBool::new(false) }),
            socket,
        };
        // The container's group counts them; see `ulimits`.
        job.limits.pids = u32::MAX;
        let binds = self.order.binds.iter().filter(|bind| bind.writable).map(|bind| bind.target.clone());
        let project = self.order.project.clone();
        let layered = made_shares(&self.order).filter(|(_, share)| share.layer.is_some()).map(|(_, share)| share.target.clone());
        let writable = std::iter::once(project.clone()).chain(binds).chain(layered).collect();
        let asks = guest::asks_names(&job);
        let given: Vec<BorrowedFd<'_>> = files.iter().chain([&self.users]).map(AsFd::as_fd).collect();
        let mut openings = grave.order(GuestOrder { project, writable, job }, &given).await?;
        drop(files);
        if asks {
            let resolver = openings.pop().ok_or(SandboxError::Gone { who: "container" })?;
            let told = packet::send(&self.steward, &(), &[resolver.as_fd(), pidfd.as_fd()]);
            told.map_err(SandboxError::io("telling the steward of a container"))?;
        }
        let (tell, unreported) = oneshot::channel();
        let pidfd = Arc::new(pidfd);
        let copy = pidfd.try_clone().map_err(SandboxError::io("watching a container"))?;
        abandoned.started();
        self.jobs.running.lock().insert(id, Arc::clone(&pidfd));
        self.jobs.unburied.send_modify(|count| *count += 1);
        tokio::spawn(bury(Arc::clone(&self.jobs), id, (container, private), pidfd, tell, Arc::clone(&grave.shortage)));
        Ok(Underway { pid, job: UnclaimedJob::new(copy, &self.dying), openings, unreported, keeper: Keeper::Engine(grave) })
    }

    /// Changes what is masked in containers to come.
    pub(crate) async fn remask(&self, change: MaskOrder) -> Result<Uncovered, SandboxError> {
        self.engine.errand.remask(self.order.work.clone(), change).await
    }

    pub(crate) fn epolls(&self) -> Arc<EpollGauge> {
        Arc::clone(&self.engine.errand.epolls)
    }

    pub(crate) fn dying(&self) -> &Dying {
        &self.dying
    }

    /// See [`crate::Workspace::buried`].
    pub(crate) async fn buried(&self) -> Result<(), SandboxError> {
        loop {
            let Some(mut container) = self.abandoned.lock().last().cloned() else { break };
            while container.changed().await.is_ok() {}
            self.abandoned.lock().retain(|other| !other.same_channel(&container));
        }
        self.dying.gone().await
    }

    fn folder(&self, id: u64) -> PathBuf {
        self.order.work.path().join(LINKS).join(id.to_string())
    }

    /// Waits until the container's pid 1 connects, or ends before it does.
    async fn answer(&self, link: &Listener, container: &Container) -> Result<Socket, SandboxError> {
        let engine = self.engine.settings.kind;
        let silent = |why: String| SandboxError::Engine { engine, what: "starting a container", why };
        let looked = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                match container.state().await {
                    Ok(state) if state.running => {}
                    Ok(state) => return silent(format!("it ended with code {} before it answered", state.exit_code)),
                    Err(error) => return error,
                }
            }
        };
        tokio::select! {
            accepted = link.accept() => accepted.map_err(SandboxError::io("hearing from a container")),
            error = looked => Err(error),
            () = tokio::time::sleep(START_MAX) => Err(silent(format!("it did not answer within {} s", START_MAX.as_secs()))),
        }
    }

    /// Pid 1 as this host names it. While its socket is open the number is its own.
    fn first_process(&self, socket: &Socket) -> Result<(i32, OwnedFd), SandboxError> {
        let (pid, uid) = socket.peer().map_err(SandboxError::io("asking who a container is"))?;
        let known = Pid::from_raw(pid).filter(|_| uid == self.engine.user.uid).ok_or(SandboxError::Gone { who: "container" })?;
        let pidfd = rustix::process::pidfd_open(known, PidfdFlags::empty());
        Ok((pid, pidfd.map_err(|error| SandboxError::io("watching a container")(error.into()))?))
    }

    /// Ends every job, waits until its container is gone, and takes the mount off.
    pub(crate) async fn close(&self) -> Result<(), SandboxError> {
        self.jobs.kill();
        let mut unburied = self.jobs.unburied.subscribe();
        let gone = unburied.wait_for(|count| *count == 0).await.is_ok();
        mount::unmount(self.order.work.path());
        if gone { Ok(()) } else { Err(SandboxError::Gone { who: "container" }) }
    }
}

impl Drop for ContainerRoom {
    fn drop(&mut self) {
        self.jobs.kill();
        mount::unmount(self.order.work.path());
        let _ = fs::remove_dir(self.order.work.path().join(LINKS));
    }
}

impl Jobs {
    fn kill(&self) {
        for pidfd in self.running.lock().values() {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}

/// A job that starts. Dropped before it has, its container is one to wait for.
struct Abandoned<'a> {
    of: &'a Mutex<Vec<watch::Receiver<()>>>,
    container: Option<watch::Receiver<()>>,
}

impl Abandoned<'_> {
    fn started(mut self) {
        self.container = None;
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.of.lock().extend(self.container.take());
    }
}

/// Waits for the end of pid 1, says how it was if nobody else did, and removes the container.
async fn bury(
    jobs: Arc<Jobs>,
    id: u64,
    (container, private): (Container, Private),
    pidfd: Arc<OwnedFd>,
    tell: oneshot::Sender<Unreported>,
    shortage: Arc<Shortage>,
) {
    if let Ok(ended) = pidfd.try_clone().and_then(sys::watch) {
        let _ = ended.readable().await;
    }
    // At once: the engine removes the group a moment later, and what it says itself about its containers' memory is not always true.
    shortage.look();
    if !tell.is_closed() {
        let ended = tokio::time::timeout(END_MAX, async {
            loop {
                match container.state().await {
                    Ok(state) if state.running => tokio::time::sleep(LOOK_EVERY / 10).await,
                    other => return other.ok(),
                }
            }
        });
        let ended = ended.await.ok().flatten();
        if ended.as_ref().is_some_and(|state| state.out_of_memory) {
            shortage.seen.store(true, Ordering::Relaxed);
        }
        // Of a pid 1 without a report it is not known what it used.
        let _ = tell.send((ended.map_or(libc::SIGKILL, |state| status(state.exit_code)), Usage::default()));
    }
    container.remove().await;
    drop(private);
    jobs.running.lock().remove(&id);
    jobs.unburied.send_modify(|count| *count -= 1);
}

/// An engine's exit code as a wait status.
fn status(code: i64) -> i32 {
    let code = code as i32 & 0xff;
    if code > 128 { code - 128 } else { code << 8 }
}

/// What a container leaves to be read, and the socket that keeps it until that is done.
#[derive(Debug)]
pub(crate) struct Grave {
    pub(crate) memory: Enforcement,
    pub(crate) pids: Enforcement,
    pub(crate) cpu: Enforcement,
    shortage: Arc<Shortage>,
    socket: Socket,
}

impl Grave {
    async fn order(&self, order: GuestOrder, files: &[BorrowedFd<'_>]) -> Result<Vec<OwnedFd>, SandboxError> {
        self.socket.send(&order, files).await.map_err(SandboxError::io("telling a container its job"))?;
        match self.socket.receive().await {
            Ok((GuestReply::Started, openings)) => Ok(openings),
            Ok((GuestReply::Failed(failure), _)) => Err(failure.into()),
            Err(_) => Err(SandboxError::Gone { who: "container" }),
        }
    }

    /// Pid 1 is still there to be asked about when it has reported; when it could not, this was looked at when it died.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        self.shortage.look()
    }
}

/// Whether something in a container was killed for want of memory.
#[derive(Debug)]
struct Shortage {
    /// The group's file that counts such kills.
    counter: Option<PathBuf>,
    seen: AtomicBool,
}

impl Shortage {
    fn look(&self) -> bool {
        let counted = self.counter.as_ref().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        if counted.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0") {
            self.seen.store(true, Ordering::Relaxed);
        }
        self.seen.load(Ordering::Relaxed)
    }
}

/// Where the memory group of a process counts.
fn counter(pid: i32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = |controller: &str| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let named = fields.next()?.split(',').any(|name| name == controller);
            named.then(|| fields.next().map(|path| path.trim_start_matches('/').to_owned())).flatten()
        })
    };
    let version_1 = path("memory").map(|path| PathBuf::from("/sys/fs/cgroup/memory").join(path).join("memory.oom_control"));
    version_1.or_else(|| path("").map(|path| PathBuf::from("/sys/fs/cgroup").join(path).join("memory.events")))
}
