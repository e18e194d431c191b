//! What is being done right now, so that it can be ended at once.
//!
//! **Invariant.** Whoever carries out a call or works on a task keeps a [`Hold`] until nothing of that work runs any more: no process, no
//! request. To cancel is to tell them and to wait for their holds.

use crate::Kernel;
use crate::WorkHold;
use crate::counted_work::CountedWorks;
use crate::merge::PieceCache;
use ledger::Ledger;
use models::RequestOwner;
use parking_lot::Mutex;
use sandbox::OutputTail;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;
use world::{CallId, Code, OpenCall, Pid, Refusal, ReviewId, TaskId};
use world::{Fault, FaultKind, Stop};

/// Killing a large tree takes milliseconds, and a container a second; what takes longer hangs.
const END_MAX: Duration = Duration::from_secs(10);

/// Whose work it is. Nobody's is what is on its way out already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkKey {
    pub task: Option<TaskId>,
    pub call: Option<CallId>,
    /// The process that stands for its job.
    pub job: Option<Pid>,
}

impl WorkKey {
    pub fn of_task(task: TaskId) -> WorkKey {
        WorkKey { task: Some(task), ..WorkKey::default() }
    }
}

/// All work under way.
pub(crate) struct RunningWork {
    open: Mutex<Vec<Entry>>,
    /// Counts ends, for those who wait for one.
    ends: watch::Sender<u64>,
}

struct Entry {
    number: u64,
    part: WorkKey,
    why: watch::Sender<Option<String>>,
    since: Instant,
    tail: Arc<OutputTail>,
}

impl Default for RunningWork {
    fn default() -> RunningWork {
        RunningWork { open: Mutex::default(), ends: watch::Sender::new(0) }
    }
}

/// Work that is under way, as long as this is held.
pub(crate) struct Hold {
    works: Arc<RunningWork>,
    number: u64,
    why: watch::Receiver<Option<String>>,
    /// The end of what its command says, while it says it.
    pub tail: Arc<OutputTail>,
}

/// A call that is being carried out, and the last lines of its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCall {
    pub task: Option<TaskId>,
    pub call: CallId,
    pub ms: u64,
    pub lines: Vec<String>,
}

impl RunningWork {
    pub fn begin(self: &Arc<RunningWork>, part: WorkKey) -> Hold {
        let (why, told) = watch::channel(None);
        let mut open = self.open.lock();
        let number = open.iter().map(|entry| entry.number).max().map_or(0, |last| last + 1);
        let tail = Arc::new(OutputTail::default());
        open.push(Entry { number, part, why, since: Instant::now(), tail: Arc::clone(&tail) });
        Hold { works: Arc::clone(self), number, why: told, tail }
    }

    /// Calls that are being carried out, with at most `lines` of each command's output.
    pub fn calls(&self, lines: usize) -> Vec<RunningCall> {
        let open = self.open.lock();
        let calls = open.iter().filter_map(|entry| {
            let ms = u64::try_from(entry.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            Some(RunningCall { task: entry.part.task, call: entry.part.call?, ms, lines: entry.tail.lines(lines) })
        });
        calls.collect()
    }

    /// The work that a process stands for.
    pub fn of_job(&self, pid: Pid) -> Option<WorkKey> {
        self.open.lock().iter().map(|entry| entry.part).find(|part| part.job == Some(pid))
    }

    pub fn has(&self, about: impl Fn(&WorkKey) -> bool) -> bool {
        self.open.lock().iter().any(|entry| about(&entry.part))
    }

    /// Tells those that it is about to end, and waits until they have.
    pub async fn end(&self, why: &str, about: impl Fn(&WorkKey) -> bool) -> Result<(), Fault> {
        let mut ends = self.ends.subscribe();
        self.open.lock().iter().filter(|entry| about(&entry.part)).for_each(|entry| drop(entry.why.send_replace(Some(why.to_owned()))));
        let over = async {
            while self.has(&about) {
                // The sender is ours, so the wait does not fail.
                drop(ends.changed().await);
            }
        };
        let late = |_| Fault::new(FaultKind::Bug, "what was cancelled did not end", format!("{} s passed", END_MAX.as_secs()));
        tokio::time::timeout(END_MAX, over).await.map_err(late)
    }
}

impl Hold {
    /// Comes back when the work is to end, with the reason.
    pub async fn ended(&self) -> Refusal {
        let mut why = self.why.clone();
        let told = why.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match told {
            Some(why) => cancelled(&why),
            // Nobody can tell us any more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.works.open.lock().retain(|entry| entry.number != self.number);
        self.works.ends.send_modify(|ends| *ends = ends.wrapping_add(1));
    }
}

pub(crate) fn cancelled(why: &str) -> Refusal {
    Refusal::new(Code::WrongState, why.to_owned())
}

/// What is being done about tasks right now.
pub struct Tasks {
    pub(crate) ledger: Arc<Ledger>,
    /// One entry for each task that something is being done about right now.
    pub(crate) episodes: Mutex<HashMap<TaskId, AbortHandle>>,
    /// What is under way, and can be ended.
    pub(crate) works: Arc<RunningWork>,
    /// Tasks whose kept changes a person proposes to choose among: no rule lets all of them pass.
    pub(crate) choosing: Mutex<HashSet<TaskId>>,
    /// A patch or a file that somebody is fetching.
    pub(crate) pieces: PieceCache,
    /// Long work with files, and how far it is.
    pub(crate) counted: Arc<CountedWorks>,
    /// Brains that are told when something in their room must wait for a person.
    waiters: Mutex<HashMap<TaskId, mpsc::UnboundedSender<ReviewId>>>,
    /// Rung when a task may have become ready.
    pub(crate) ready: Notify,
}

impl Tasks {
    pub(crate) fn new(ledger: Arc<Ledger>, hold: Option<Arc<WorkHold>>) -> Tasks {
        Tasks {
            ledger,
            episodes: Mutex::default(),
            works: Arc::default(),
            choosing: Mutex::default(),
            pieces: PieceCache::default(),
            counted: Arc::new(CountedWorks::new(hold)),
            waiters: Mutex::default(),
            ready: Notify::new(),
        }
    }

    /// Where the brain of a task hears of questions that something in its room asked.
    pub(crate) fn questions_of(&self, task: TaskId) -> mpsc::UnboundedReceiver<ReviewId> {
        let (tell, hear) = mpsc::unbounded_channel();
        self.waiters.lock().insert(task, tell);
        hear
    }

    /// Tells the brain of a task that it cannot go on before a person has answered.
    pub(crate) fn await_review(&self, task: TaskId, review: ReviewId) {
        let mut waiters = self.waiters.lock();
        // A brain that has gone asks again when it comes back.
        if waiters.get(&task).is_some_and(|tell| tell.send(review).is_err()) {
            waiters.remove(&task);
        }
    }

    /// A task may have become ready: the queue looks again.
    pub(crate) fn wake(&self) {
        self.ready.notify_one();
    }

    /// Ends every episode where it is.
    pub(crate) fn abort_all(&self) {
        self.episodes.lock().drain().for_each(|(_, episode)| episode.abort());
    }

    /// The task whose job a process stands for.
    pub fn task_of_job(&self, pid: Pid) -> Option<TaskId> {
        self.works.of_job(pid)?.task
    }

    /// Ends what is done about a task, with every process and request of it.
    pub(crate) async fn end_work(&self, task: TaskId, why: &str) -> Result<(), Fault> {
        if let Some(episode) = self.episodes.lock().remove(&task) {
            episode.abort();
        }
        self.works.end(why, |part| part.task == Some(task)).await?;
        self.works.end(why, |part| *part == WorkKey::default()).await
    }

    /// Does some work on a task, which ends when that is cancelled.
    pub(crate) async fn work_on<T>(&self, task: TaskId, work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
        let hold = self.works.begin(WorkKey::of_task(task));
        // Cancelled before it was on the list.
        if let Some(refusal) = self.ledger.cancelled(task) {
            return Err(refusal.into());
        }
        tokio::select! {
            biased;
            refusal = hold.ended() => Err(refusal.into()),
            done = work => done,
        }
    }
}

impl Kernel {
    /// Ends one call that runs.
    pub async fn cancel_call(&self, call: CallId, by: &str) -> Result<(), Stop> {
        let open = self.ledger.look(|world| world.calls.get(&call).cloned());
        let runs = self.tasks.works.has(|part| part.call == Some(call)) || self.models.is_in_flight(call);
        match open {
            Some(_) if runs => {}
            // What a job does on the network is no work apart from the job.
            Some(OpenCall { of: Some(of), .. }) => {
                let refusal = Refusal::new(Code::WrongState, format!("{call} is a part of {of} and ends with it"));
                return Err(refusal.hint(format!("cancel {of}")).into());
            }
            _ => {
                return Err(Refusal::new(Code::NotFound, format!("{call} does not run"))
                    .remedy(world::Remedy::List { what: world::Listing::Calls })
                    .into());
            }
        }
        let why = format!("{call} was cancelled by {by}");
        let settled = self.models.stop_requests_of(RequestOwner::Call(call), &why);
        self.tasks.works.end(&why, |part| part.call == Some(call)).await?;
        settled.await;
        Ok(self.tasks.works.end("", |part| *part == WorkKey::default()).await?)
    }

    /// Ends what a process does: a job or a brain with its task, a program outside with its way to models.
    pub async fn cancel_process(&self, pid: Pid, by: &str) -> Result<(), Stop> {
        let process = self.ledger.look(|world| world.processes.get(&pid).filter(|process| process.state.alive()).cloned());
        let Some(process) = process else {
            return Err(Refusal::new(Code::NotFound, format!("process {pid} does not run"))
                .remedy(world::Remedy::List { what: world::Listing::Processes })
                .into());
        };
        if process.role == models::CLIENT {
            return Ok(self.models.cancel_gateway(pid, by).await?);
        }
        let current = || self.ledger.look(|world| world.current_task(pid).map(|task| task.id));
        match self.tasks.task_of_job(pid).or_else(current) {
            Some(task) if ![Pid::KERNEL, Pid::OPERATOR].contains(&pid) => self.cancel(task, by).await,
            _ => Err(Refusal::new(Code::WrongState, format!("{} does nothing that could be cancelled", process.name))
                .hint("name a task, a call or a process that does something")
                .remedy(world::Remedy::List { what: world::Listing::Processes })
                .into()),
        }
    }
}
