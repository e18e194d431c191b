//! What is being done right now, so that it can be ended at once.
//!
//! **Invariant.** Whoever carries out a call or works on a task keeps a [`WorkGuard`] until nothing of that work runs any more: no process, no
//! request. To cancel is to tell them and to wait for their holds.

use parking_lot::Mutex;
use sandbox::OutputTail;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use world::{CallId, Code, Fault, FaultKind, Pid, Refusal, TaskId};

/// Killing a large tree takes milliseconds, and a container a second; what takes longer hangs.
const END_MAX: Duration = Duration::from_secs(10);

/// Whose work it is. Nobody's is what is on its way out already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkKey {
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
pub struct RunningWork {
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
pub struct WorkGuard {
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
    pub fn begin(self: &Arc<RunningWork>, part: WorkKey) -> WorkGuard {
        let (why, told) = watch::channel(None);
        let mut open = self.open.lock();
        let number = open.iter().map(|entry| entry.number).max().map_or(0, |last| last + 1);
        let tail = Arc::new(OutputTail::default());
        open.push(Entry { number, part, why, since: Instant::now(), tail: Arc::clone(&tail) });
        WorkGuard { works: Arc::clone(self), number, why: told, tail }
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

impl WorkGuard {
    /// Comes back when the work is to end, with the reason.
    pub async fn cancelled(&self) -> Refusal {
        let mut why = self.why.clone();
        let told = why.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match told {
            Some(why) => Refusal::new(Code::WrongState, why),
            // Nobody can tell us any more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        self.works.open.lock().retain(|entry| entry.number != self.number);
        self.works.ends.send_modify(|ends| *ends = ends.wrapping_add(1));
    }
}
