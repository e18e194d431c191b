//! The kernel's side of a holder: a workspace and its jobs.
//!
//! **Invariant.** No job outlives the value that stands for it: dropping a [`Job`], the future of `run`, or the [`Workspace`]
//! kills what is behind it, also when its start is not confirmed yet.

mod holder;
mod job;
mod order;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::holder::{HeldRoom, KillOnDrop};
pub(crate) use self::holder::{Keeper, Underway};
use self::job::Cut;
pub use self::job::{Job, JobEnd};
use self::order::order;
use crate::cgroup::{Cgroups, Group};
use crate::disk::{Bounds, DiskMeter};
use crate::door;
use crate::dying::Dying;
use crate::epoll::EpollGauge;
use crate::fault::{SandboxError, SandboxFuture};
use crate::figures::{JobFigures, Running, unless_still};
use crate::inlet::Inlets;
use crate::link::{Link, LinkOpening};
use crate::order::{Bytes, MaskOrder, OpenOrder, Uncovered};
use crate::output;
use crate::spec::{Act, Enforcement, JobSpec, Outcome, Stdio};
use crate::sys;

/// An open workspace. Dropping it ends its holder, every job and the mount; the files in its work directory stay.
#[derive(Debug)]
pub struct Workspace {
    room: Room,
    root: OwnedFd,
    bare: OwnedFd,
    /// What is covered now. Held while it changes, so that two changes do not cross.
    masked: tokio::sync::Mutex<BTreeSet<PathBuf>>,
    project: PathBuf,
    work: PathBuf,
    meter: Arc<DiskMeter>,
    /// Those that run or are about to be forgotten.
    jobs: Mutex<Vec<Weak<Running>>>,
    paused: watch::Sender<bool>,
    dying: Dying,
    epolls: Arc<EpollGauge>,
}

/// Where a workspace lies, and what of it is masked.
pub(crate) struct Places {
    project: PathBuf,
    work: PathBuf,
    masked: BTreeSet<PathBuf>,
}

impl Places {
    pub(crate) fn of(order: &OpenOrder) -> Places {
        let masked = order.masked.iter().map(|path| path.path().to_owned()).collect();
        Places { project: order.project.path().to_owned(), work: order.work.path().to_owned(), masked }
    }

    pub(crate) fn without(mut self, uncovered: &Uncovered) -> Places {
        self.masked.retain(|path| !uncovered.has(path));
        self
    }
}

/// Where its jobs come from.
#[derive(Debug)]
enum Room {
    Held(HeldRoom),
    /// An engine makes a container for each.
    Contained(Box<crate::oci::ContainerRoom>),
}

impl Workspace {
    /// Waits until the holder has built its room.
    pub(crate) async fn join(
        socket: OwnedFd,
        pidfd: OwnedFd,
        pid: i32,
        places: Places,
        (cgroups, epolls): (Arc<Cgroups>, Arc<EpollGauge>),
    ) -> Result<Workspace, SandboxError> {
        let holder = KillOnDrop(Some(pidfd));
        let dying = Dying::default();
        let LinkOpening { link, root, bare, uncovered } = Link::open(socket, dying.clone()).await?;
        let pidfd = holder.keep().ok_or(SandboxError::Gone { who: "holder" })?;
        let room = Room::Held(HeldRoom { link, pid, pidfd, cgroups });
        Ok(Workspace::new(room, root, bare, places.without(&uncovered), dying, epolls))
    }

    pub(crate) fn contained(room: crate::oci::ContainerRoom, root: OwnedFd, bare: OwnedFd, places: Places) -> Workspace {
        let (dying, epolls) = (room.dying().clone(), room.epolls());
        Workspace::new(Room::Contained(Box::new(room)), root, bare, places, dying, epolls)
    }

    fn new(room: Room, root: OwnedFd, bare: OwnedFd, places: Places, dying: Dying, epolls: Arc<EpollGauge>) -> Workspace {
        let Places { project, work, masked } = places;
        let meter = Arc::new(DiskMeter::new(&work));
        let (jobs, paused) = (Mutex::default(), watch::Sender::new(false));
        Workspace { room, root, bare, masked: tokio::sync::Mutex::new(masked), project, work, meter, jobs, paused, dying, epolls }
    }

    /// Covers exactly these paths, relative to the project and none of them beneath another, for every job that starts from now on; what
    /// runs already sees what it saw. Those that are not there come back: nothing of theirs can be seen, or an earlier lookup found them
    /// missing and the overlay still remembers that.
    pub async fn remask(&self, paths: &BTreeSet<PathBuf>) -> Result<Vec<PathBuf>, SandboxError> {
        let mut masked = self.masked.lock().await;
        let bytes = |path: &PathBuf| Bytes::from(path.clone());
        let (lift, cover) = (masked.difference(paths).map(bytes).collect(), paths.difference(&masked).map(bytes).collect());
        let change = MaskOrder { lift, cover, refresh: false };
        if change == MaskOrder::default() {
            return Ok(Vec::new());
        }
        let uncovered = match &self.room {
            Room::Held(holder) => holder.link.remask(change).await?,
            Room::Contained(room) => room.remask(change).await?,
        };
        *masked = paths.iter().filter(|path| !uncovered.has(path)).cloned().collect();
        Ok(uncovered.absent.iter().map(|path| path.path().to_owned()).collect())
    }

    /// Has jobs that run see the project as it is now: an overlay remembers what a name led to, and that there was none. A path that jobs
    /// changed stays as they left it. False where the room is a container's, whose overlay is not ours.
    pub async fn refresh(&self) -> Result<bool, SandboxError> {
        let _alone = self.masked.lock().await;
        match &self.room {
            Room::Held(holder) => {
                holder.link.remask(MaskOrder { refresh: true, ..MaskOrder::default() }).await?;
                Ok(true)
            }
            Room::Contained(_) => Ok(false),
        }
    }

    /// The merged project as a directory descriptor: a read through it sees what jobs wrote. Valid while the workspace is open.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// The same without its masks, for reads that are decided one by one. It is as open as the project itself.
    pub fn bare(&self) -> &OwnedFd {
        &self.bare
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

    /// The same workspace after its directory was renamed. Its mounts hang on the files and not on their names. A container's do not.
    #[must_use]
    pub fn at(mut self, work: PathBuf) -> Workspace {
        self.meter.follow(&work);
        self.work = work;
        self
    }

    /// What jobs have changed so far.
    pub async fn changes(&self) -> Result<crate::Changes, SandboxError> {
        let (project, work) = (self.project.clone(), self.work.clone());
        let walked = tokio::task::spawn_blocking(move || crate::changes(&project, &work)).await;
        walked.map_err(io::Error::other).and_then(|result| result).map_err(SandboxError::io("reading the changes"))
    }

    /// Runs a job to its end and collects its output. Nobody listens at its doors.
    pub fn run(&self, spec: JobSpec, stdin: Option<Vec<u8>>) -> SandboxFuture<'_, Outcome> {
        Box::pin(self.run_attended(spec, stdin, drop))
    }

    /// Runs a job to its end and collects its output. `attend` gets the job's doors as soon as it has started.
    pub async fn run_attended(
        &self,
        spec: JobSpec,
        stdin: Option<Vec<u8>>,
        attend: impl FnOnce(Vec<TcpListener>),
    ) -> Result<Outcome, SandboxError> {
        let began = Instant::now();
        let (output_max, tail) = (spec.output_max, spec.tail.clone());
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
        let (ended, stdout, stderr, fed) = tokio::join!(
            job.wait(),
            output::collect(out_read, output_max, tail.clone()),
            output::collect(err_read, output_max, tail),
            output::feed(feed),
        );
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
            overfull: ended.overfull,
            duration: began.elapsed(),
            usage: ended.usage,
            memory: ended.memory,
            pids: ended.pids,
        })
    }

    /// Starts a job whose streams are the caller's.
    pub fn spawn(&self, spec: JobSpec, stdin: Stdio, stdout: Stdio, stderr: Stdio) -> SandboxFuture<'_, Job> {
        Box::pin(self.start(spec, [stdin, stdout, stderr]))
    }

    async fn start(&self, spec: JobSpec, streams: [Stdio; 3]) -> Result<Job, SandboxError> {
        let mut order = order(&spec)?;
        self.running().await;
        let bounds = Bounds { bytes: spec.limits.disk_bytes, files: spec.limits.disk_files };
        let before = self.room_on_disk(&spec, bounds).await?;
        if matches!(spec.act, Act::Exec { .. }) && before.and_then(|held| bounds.twice().broken_by(held)).is_some() {
            // Many commands, each over before anybody looks, would fill the disk: from here on they tidy and write nothing.
            order.limits.file_bytes = Some(0);
        }
        let (report, report_write) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| SandboxError::io("making a pipe")(error.into()))?;
        let report = pipe::Receiver::from_owned_fd(report).map_err(SandboxError::io("watching a pipe"))?;
        let mut files = Vec::new();
        for stream in streams {
            files.push(open_stream(stream).map_err(SandboxError::io("opening a stream"))?);
        }
        files.push(report_write);
        let Underway { pid, job, mut openings, unreported, keeper } = match &self.room {
            Room::Held(holder) => holder.start(order, files, spec.branch.as_ref()).await?,
            Room::Contained(_) if spec.branch.is_some() => return Err(SandboxError::Branch { why: "containers have groups of their own" }),
            Room::Contained(room) => room.start(order, files).await?,
        };
        let pidfd = job.pidfd().ok_or(SandboxError::Gone { who: "job" })?;
        if openings.len() != spec.doors.len() + spec.inlets + usize::from(spec.terminal.is_some()) {
            return Err(SandboxError::Gone { who: "holder" });
        }
        let terminal = spec.terminal.and_then(|_| openings.pop());
        let inlets = Inlets::new(openings.split_off(spec.doors.len()));
        let doors = door::listeners(openings)?;
        let command = match &spec.act {
            Act::Exec { argv } => argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            _ => Vec::new(),
        };
        let group = match &keeper {
            Keeper::Holder { group, .. } => group.clone(),
            Keeper::Engine(_) => None,
        };
        let running =
            Arc::new(Running { pid, pidfd, command, began: Instant::now(), group, held: false.into(), still: Default::default() });
        if matches!(spec.act, Act::Exec { .. }) {
            self.remember(&running);
            // Paused while it started: it was not on the list yet.
            if *self.paused.borrow() {
                running.pause().await?;
                if !*self.paused.borrow() {
                    running.resume();
                }
            }
        }
        let cut = Arc::new(Mutex::new(None));
        let held = match &keeper {
            Keeper::Holder { group, .. } => group.as_deref().and_then(Group::memory).is_some(),
            Keeper::Engine(_) => true,
        };
        let memory = spec.limits.memory_bytes.filter(|_| !held);
        let watches = self.watches(&spec.limits, memory, bounds, before, &running, &cut);
        let without_group = match (memory, spec.limits.data_bytes) {
            (Some(_), _) => Enforcement::Watched,
            (None, Some(_)) => Enforcement::Rlimit,
            (None, None) => Enforcement::None,
        };
        let dying = self.dying.clone();
        // Only here: whoever gives up before has no job that would end it.
        job.claim();
        Ok(Job {
            doors,
            inlets,
            terminal,
            act: spec.act,
            running,
            report,
            unreported,
            cut,
            watches,
            keeper,
            without_group,
            dying,
            over: false,
        })
    }

    /// Tasks that end the job when its time is over, it takes too much memory or the workspace is too full.
    fn watches(
        &self,
        limits: &crate::spec::Limits,
        memory: Option<u64>,
        bounds: Bounds,
        before: Option<crate::disk::DiskUse>,
        running: &Arc<Running>,
        cut: &Arc<Mutex<Option<Cut>>>,
    ) -> Vec<AbortHandle> {
        let mut watches = Vec::new();
        let mut watch = |end: std::pin::Pin<Box<dyn Future<Output = Cut> + Send>>| {
            let (running, cut) = (Arc::clone(running), Arc::clone(cut));
            let still = running.still.subscribe();
            let watched = async move {
                let why = unless_still(still, end).await;
                cut.lock().get_or_insert(why);
                running.kill();
            };
            watches.push(tokio::spawn(watched).abort_handle());
        };
        if let Some(wall) = limits.wall {
            let awake = awake(wall, self.paused.subscribe());
            watch(Box::pin(async move {
                awake.await;
                Cut::Time
            }));
        }
        if let Some(max) = memory {
            let job = running.pid;
            watch(Box::pin(async move {
                crate::memory::over(max, job).await;
                Cut::Memory
            }));
        }
        let (epolls, job) = (Arc::clone(&self.epolls), running.pid);
        watch(Box::pin(async move {
            epolls.emptied_by(job).await;
            Cut::Memory
        }));
        if let Some(before) = before {
            let (meter, job) = (Arc::clone(&self.meter), running.pid);
            watch(Box::pin(async move { Cut::Disk(meter.overfull(bounds, before, job).await) }));
        }
        watches
    }

    /// What the workspace holds, if the job is bounded by it. A full one takes no more files; commands may still tidy it.
    async fn room_on_disk(&self, spec: &JobSpec, bounds: Bounds) -> Result<Option<crate::disk::DiskUse>, SandboxError> {
        if bounds == (Bounds { bytes: None, files: None }) {
            return Ok(None);
        }
        let held = self.meter.before(bounds).await.map_err(SandboxError::io("measuring the workspace"))?;
        match bounds.broken_by(held) {
            Some(limit) if matches!(spec.act, Act::Write { .. }) => Err(SandboxError::Full { limit }),
            _ => Ok(Some(held)),
        }
    }

    fn remember(&self, running: &Arc<Running>) {
        let mut jobs = self.jobs.lock();
        jobs.retain(|job| job.strong_count() > 0);
        jobs.push(Arc::downgrade(running));
    }

    /// What runs in the room now, and what it uses.
    pub fn jobs(&self) -> Vec<JobFigures> {
        self.jobs.lock().iter().filter_map(Weak::upgrade).filter_map(|job| job.figures()).collect()
    }

    /// Kills everything that runs in the room, and waits until it is gone.
    pub async fn end_jobs(&self) -> Result<(), SandboxError> {
        let jobs: Vec<Arc<Running>> = self.jobs.lock().iter().filter_map(Weak::upgrade).collect();
        for job in jobs {
            job.kill();
            self.dying.note(Arc::clone(&job.pidfd));
        }
        self.buried().await
    }

    /// Waits until nothing lives any more of the jobs whose values were dropped before their end, nor of those whose start was given up.
    pub async fn buried(&self) -> Result<(), SandboxError> {
        match &self.room {
            Room::Held(holder) => holder.link.buried().await,
            Room::Contained(room) => room.buried().await,
        }
    }

    /// Stops everything that runs in the room; what is to start waits. Time does not count against limits meanwhile.
    pub async fn pause(&self) -> Result<(), SandboxError> {
        self.paused.send_replace(true);
        let jobs: Vec<Arc<Running>> = self.jobs.lock().iter().filter_map(Weak::upgrade).collect();
        for job in jobs {
            job.pause().await?;
        }
        Ok(())
    }

    pub fn resume(&self) {
        for job in self.jobs.lock().iter().filter_map(Weak::upgrade) {
            job.resume();
        }
        self.paused.send_replace(false);
    }

    /// What the upper layer takes up. Walks it, so it blocks.
    pub fn held(&self) -> crate::disk::DiskUse {
        self.meter.now()
    }

    pub fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Comes back when the room has not been paused for so long in all.
    pub async fn awake(&self, time: Duration) {
        awake(time, self.paused.subscribe()).await;
    }

    async fn running(&self) {
        // The sender is ours, so the wait does not fail.
        let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
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

/// Waits for so much time in which the room is not paused.
async fn awake(time: Duration, mut paused: watch::Receiver<bool>) {
    let mut left = time;
    loop {
        if paused.wait_for(|paused| !paused).await.is_err() {
            // The workspace is gone, and its jobs with it.
            return;
        }
        let began = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(left) => return,
            _ = paused.wait_for(|paused| *paused) => left = left.saturating_sub(began.elapsed()),
        }
    }
}

fn open_stream(stream: Stdio) -> io::Result<OwnedFd> {
    match stream {
        Stdio::Fd(fd) => Ok(fd),
        Stdio::Null => Ok(std::fs::File::options().read(true).write(true).open("/dev/null")?.into()),
    }
}
