//! The tasks that something is being done about, and how that is cancelled.

use crate::Kernel;
use crate::merge::PieceCache;
use ledger::Ledger;
use models::RequestOwner;
use parking_lot::Mutex;
use report::{CountedWorks, WorkHold};
use room::{RunningCall, RunningWork, WorkKey};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use world::{CallId, Code, Fault, OpenCall, Pid, Refusal, ReviewId, Stop, TaskId};

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
    pub counted: Arc<CountedWorks>,
    /// Brains that are told when something in their room must wait for a person.
    waiters: Mutex<HashMap<TaskId, mpsc::UnboundedSender<ReviewId>>>,
    /// How often in a row a task could not go on because a file could not be read or written.
    pub(crate) unreadable: Mutex<HashMap<TaskId, u32>>,
    /// Rung when an episode has left the table, which is just after its last record.
    pub(crate) left: Notify,
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
            unreadable: Mutex::default(),
            left: Notify::new(),
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
            self.left.notify_waiters();
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
            refusal = hold.cancelled() => Err(refusal.into()),
            done = work => done,
        }
    }
}

/// Lines of a running command that are told.
const LINES: usize = 8;

impl Kernel {
    /// Calls that are being carried out, with the last lines of their commands; secrets are taken out as they are from results.
    pub fn running_calls(&self) -> Vec<RunningCall> {
        let mut calls = self.tasks.works.calls(LINES);
        for line in calls.iter_mut().flat_map(|call| &mut call.lines) {
            *line = self.ledger.redactor.text(line).into_owned();
        }
        calls
    }

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
