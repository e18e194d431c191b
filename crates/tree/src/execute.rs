//! Tasks of processes: queued, worked on by the program, parked for a person, and settled.
//!
//! **Invariant.** A task is on record before its program hears of it, and its outcome is before anybody else does. It runs within its time and
//! within the number of tasks that its process may work on; what an interruption leaves is kept.

use crate::bounds::{until_told, used_up};
use crate::brain_work::{is_over, said};
use crate::calls::{CallEffect, TreeCall};
use crate::end::{execute_result, of_tree, own_children};
use crate::live::LiveProgram;
use crate::order::TaskOrder;
use crate::syscall::TaskHost;
use crate::{Tree, TreeCaller, TreeFuture};
use gate::TreeRequest;
use hive::generated::agent::{TaskRequest, TaskResult};
use hive::{ExecutionEnd, LinkErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use world::event::{TaskFailed, TaskFinished, TaskQueued};
use world::{
    Code, Event, ExecuteOrder, ExecuteResult, Fault, FaultKind, Mode, Pid, Process, ProgramRuntime, Refusal, Stop, Task, TaskId, TaskState,
    ZoneId,
};

/// Bytes of a task's output that its record has; a longer one is a blob beside it.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;
/// Characters of its summary.
const SUMMARY_CHARS: usize = 200;
/// How long a program has to break a task off before it is killed.
pub(crate) const INTERRUPT_MAX: Duration = Duration::from_secs(5);
/// How long the end of a program, and its record, may come after its connection broke.
const END_KNOWN_WITHIN: Duration = Duration::from_secs(2);
/// Why what a program works on fails when the kernel goes down.
const STOPPED: &str = "the kernel was stopped";
/// Tasks of one process that wait: whoever is so far behind does not catch up.
const QUEUED_MAX: usize = 1_000;

/// A task that a program works on.
pub(crate) struct RunningTask {
    pub pid: Pid,
    /// How the program knows it.
    pub wire_id: String,
    /// True once the program has it.
    pub taken: watch::Sender<bool>,
    /// What it had when it was interrupted.
    pub partial: Option<TaskResult>,
    /// Why it is to end now, once there is a reason.
    pub over: watch::Sender<Option<String>>,
}

/// A task that is worked off.
type RunningWork = JoinHandle<Result<ExecuteResult, Stop>>;

/// A task's texts as they were given, where the record has them without their secrets.
#[derive(Clone, Serialize, Deserialize)]
struct TaskText {
    prompt: String,
    params: BTreeMap<String, String>,
}

/// A task that its program is to hear of.
struct BegunTask {
    task: Task,
    live: Arc<LiveProgram>,
    wire_id: String,
    /// Why it is to end now, once there is a reason.
    used_up: watch::Receiver<Option<String>>,
}

/// How a task came to its end.
enum TaskOutcome {
    Done(ExecuteResult),
    Failed {
        reason: String,
        result: Option<ExecuteResult>,
    },
    /// The kernel goes down before it began: it is queued, and the next kernel has it worked off.
    Left,
}

/// Refuses what a process does first where that is queued already: a spawn that a crash cut off is finished at boot, and whoever asked for it may ask again.
pub(crate) fn check_first(process: &Process, order: &TaskOrder) -> Result<(), Refusal> {
    match order.is_first && process.owes_first_to.is_none() {
        true => Err(Refusal::new(Code::WrongState, format!("what process {} does first is queued already", process.pid))),
        false => Ok(()),
    }
}

impl Tree {
    /// Has a process do something, and waits for what comes of it.
    pub fn execute(&self, by: Pid, target: Pid, order: TaskOrder, only_children: bool) -> TreeFuture<'_, Result<ExecuteResult, Stop>> {
        Box::pin(async move {
            let (_, run) = self.begin_work(by.into(), target, order, only_children).await?;
            run.await.map_err(|error| Fault::new(FaultKind::Bug, "a task was lost", error))?
        })
    }

    /// Has a process do something. What comes of it is [`Tree::work_result`]'s to tell.
    pub fn assign(
        &self,
        by: impl Into<TreeCaller>,
        target: Pid,
        order: TaskOrder,
        only_children: bool,
    ) -> TreeFuture<'_, Result<TaskId, Stop>> {
        let by = by.into();
        Box::pin(async move { Ok(self.begin_work(by, target, order, only_children).await?.0) })
    }

    async fn begin_work(&self, by: TreeCaller, target: Pid, order: TaskOrder, only_children: bool) -> Result<(TaskId, RunningWork), Stop> {
        let me = self.me.upgrade().ok_or_else(crate::spawn::stopping)?;
        if self.is_brain(target) {
            let task = self.queue_for_brain(by, target, order, only_children).await?;
            return Ok((task, tokio::spawn(async move { me.brain_result(task).await })));
        }
        let text = TaskText { prompt: order.description.clone(), params: order.params.clone() };
        let task = self.queue_task(by, target, order, only_children).await?;
        // What was begun is finished also when the caller goes away.
        Ok((task, tokio::spawn(async move { me.run_task(task, text).await })))
    }

    /// What came of work that `by` had another do; `None` where it is not over within `wait`. It is on record, so it can be asked for again.
    pub async fn work_result(&self, by: Pid, id: TaskId, wait: Duration) -> Result<Option<ExecuteResult>, Stop> {
        let is_his = |task: &&Task| task.order.as_ref().is_some_and(|order| order.by == by);
        let is_known = self.ledger.look(|world| world.tasks.get(&id).filter(is_his).is_some());
        if !is_known {
            return Err(Refusal::new(Code::NotFound, format!("{id} is no work of yours")).into());
        }
        let over = self.until(|world| match world.tasks.get(&id) {
            Some(task) if !is_over(task) => None,
            task => Some(task.cloned()),
        });
        let Ok(over) = tokio::time::timeout(wait, over).await else { return Ok(None) };
        match over {
            Some(Task { state: TaskState::Done, result, summary, .. }) => {
                let mut result = result.map_or_else(|| said(summary), |result| *result);
                if let Some(blob) = result.blob.take() {
                    result.output = String::from_utf8_lossy(&self.ledger.blob(&blob)?).into_owned();
                }
                Ok(Some(result))
            }
            task => {
                let why = task.and_then(|task| task.summary).unwrap_or_default();
                Err(Refusal::new(Code::WrongState, format!("task failed: {why}")).into())
            }
        }
    }

    async fn queue_task(
        &self,
        TreeCaller { pid: by, asked }: TreeCaller,
        target: Pid,
        order: TaskOrder,
        only_children: bool,
    ) -> Result<TaskId, Stop> {
        let original = self.keep_task_text(&order).await?;
        let context = if order.context.is_empty() { None } else { Some(self.ledger.keep(&order.context)?) };
        let input = json!({ "pid": target.0, "description": order.description, "params": order.params, "label": order.label });
        let about = Some(TreeRequest::Direct { target, only_children });
        let call = TreeCall { by, tool: "proc.execute", input, about, read_only: false };
        let queued = self.commit_asked(call, asked, |world, _, _| {
            let process = of_tree(world, target)?;
            check_first(process, &order)?;
            let limits = process.limits().copied().unwrap_or_default();
            if process.program.as_ref().is_some_and(|program| program.runtime == ProgramRuntime::Virtual) {
                return Err(Refusal::new(Code::WrongState, format!("process {target} is virtual: nothing runs that could execute a task")));
            }
            if let Some(short) = world.claimed_up(target) {
                return Err(Refusal::new(Code::Exhausted, used_up(&short)).remedy(short.remedy()));
            }
            if world.open_tasks(target).count() >= QUEUED_MAX {
                return Err(Refusal::new(Code::Exhausted, format!("process {target} has {QUEUED_MAX} tasks that are not done")));
            }
            let task = world.next_task();
            let timeout_ms = order.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            let bound = timeout_ms.into_iter().chain(limits.timeout_ms).min();
            let asked = ExecuteOrder {
                by,
                params: order.params.clone(),
                label: order.label.clone(),
                parent_task: order.parent_task.clone(),
                context: context.clone(),
                is_first: order.is_first,
            };
            let queued = TaskQueued {
                pid: target,
                task: Some(task),
                zone: ZoneId::NONE,
                mode: Mode::Execute,
                prompt: order.description.clone(),
                brain: String::new(),
                priority: 0,
                calls_max: None,
                original: original.clone(),
                discard: false,
                order: Some(Box::new(asked)),
            };
            let mut events: Vec<Event> = vec![queued.into()];
            if let Some(timeout_ms) = bound {
                let scheduled =
                    world::event::TaskScheduled { pid: target, task: Some(task), after: Vec::new(), timeout_ms: Some(timeout_ms) };
                events.push(scheduled.into());
            }
            Ok(CallEffect { events, output: json!({ "task": task.to_string() }), value: task })
        });
        match queued.await {
            Ok(task) => Ok(task),
            Err(stop) => {
                if let Some(name) = original {
                    self.ledger.delete_original(name)?;
                }
                Err(own_children(stop, only_children, "execute_on"))
            }
        }
    }

    async fn keep_task_text(&self, order: &TaskOrder) -> Result<Option<String>, Stop> {
        let is_plain = |text: &String| matches!(self.ledger.redactor.text(text), Cow::Borrowed(_));
        if is_plain(&order.description) && order.params.values().all(is_plain) {
            return Ok(None);
        }
        let text = TaskText { prompt: order.description.clone(), params: order.params.clone() };
        let bytes = serde_json::to_vec(&text).map_err(|error| Fault::new(FaultKind::Bug, "a task cannot be written", error))?;
        let journal = self.ledger.journal().clone();
        let kept = tokio::task::spawn_blocking(move || {
            let vault = journal.vault();
            let name = format!("execute-{}-{}", vault.digest(&bytes), UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos());
            vault.put_durably(&name, &bytes).map(|()| name)
        });
        let kept = kept.await.map_err(|error| Fault::new(FaultKind::Bug, "the task was not kept", error))?;
        Ok(Some(kept.map_err(ledger::fault)?))
    }

    async fn task_text(&self, task: &Task) -> Result<TaskText, Fault> {
        let Some(name) = task.original.clone() else {
            let params = task.order.as_ref().map(|order| order.params.clone()).unwrap_or_default();
            return Ok(TaskText { prompt: task.prompt.clone(), params });
        };
        let journal = self.ledger.journal().clone();
        let read = tokio::task::spawn_blocking(move || journal.vault().get(&name)).await;
        let read = read.map_err(|error| Fault::new(FaultKind::Bug, "the task was not read", error))?.map_err(ledger::fault)?;
        let bytes = read.ok_or_else(|| Fault::new(FaultKind::Io, "the task held a secret", "it is not kept any more"))?;
        serde_json::from_slice(&bytes).map_err(|error| Fault::new(FaultKind::Bug, "a kept task cannot be read", error))
    }

    /// Works off what was queued for a process before it was started again.
    pub(crate) fn take_up_tasks(self: &Arc<Self>, pid: Pid) {
        let waiting: Vec<Task> = self.ledger.look(|world| {
            let queued = world.open_tasks(pid).filter(|task| task.state == TaskState::Queued);
            queued.filter(|task| !self.carried.borrow().contains(&task.id)).cloned().collect()
        });
        for task in waiting {
            let me = Arc::clone(self);
            tokio::spawn(async move {
                let run = async { me.run_task(task.id, me.task_text(&task).await?).await };
                if let Err(stop) = run.await {
                    world::log!("skep: {} came to nothing: {stop}", task.id);
                }
            });
        }
    }

    /// Works a queued task off.
    async fn run_task(self: &Arc<Self>, id: TaskId, text: TaskText) -> Result<ExecuteResult, Stop> {
        self.carried.send_if_modified(|carried| carried.insert(id));
        let mut stopping = self.stopping.subscribe();
        let begun = tokio::select! {
            begun = self.prepare(id) => begun,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => Err(TaskOutcome::Left),
        };
        let outcome = match begun {
            Ok(begun) => self.work_off(begun, text).await,
            // The kernel goes down: what did not begin is no failure of the task.
            Err(_) if *self.stopping.borrow() => TaskOutcome::Left,
            Err(outcome) => outcome,
        };
        self.running.lock().remove(&id);
        let settled = self.settle_task(id, outcome).await;
        // INVARIANT: after its outcome is on record, for a stop of the kernel waits for this.
        self.carried.send_if_modified(|carried| carried.remove(&id));
        let pid = self.ledger.look(|world| world.tasks.get(&id).map(|task| task.pid));
        if let Some(pid) = pid.filter(|_| !*self.stopping.borrow()) {
            self.rest(pid).await?;
        }
        settled
    }

    /// Has the program of a task's process run, and the task begun on record.
    async fn prepare(self: &Arc<Self>, id: TaskId) -> Result<BegunTask, TaskOutcome> {
        let failed = |reason: String| TaskOutcome::Failed { reason, result: None };
        let task = self.ledger.look(|world| world.tasks.get(&id).cloned()).ok_or_else(|| failed("it is gone".to_owned()))?;
        let pid = task.pid;
        let live = self.wake(pid, &format!("{id} is for it")).await.map_err(|fault| failed(fault.to_string()))?;
        let label = task.order.as_ref().map(|order| order.label.clone()).filter(|label| !label.is_empty());
        let wire_id = label.unwrap_or_else(|| id.to_string());
        // Before it runs on record: whoever sees it run finds it here, to interrupt it.
        let (taken, over) = (watch::Sender::new(false), watch::Sender::new(None));
        let used_up = over.subscribe();
        self.running.lock().insert(id, RunningTask { pid, wire_id: wire_id.clone(), taken, partial: None, over });
        match self.begin_task(id).await {
            Ok(true) => Ok(BegunTask { task, live, wire_id, used_up }),
            Ok(false) => Err(failed("its process ended".to_owned())),
            Err(fault) => Err(failed(fault.to_string())),
        }
    }

    async fn work_off(self: &Arc<Self>, begun: BegunTask, text: TaskText) -> TaskOutcome {
        let failed = |reason: String| TaskOutcome::Failed { reason, result: None };
        let BegunTask { task, live, wire_id, mut used_up } = begun;
        let (id, order) = (task.id, task.order.unwrap_or_default());
        let context = match order.context.as_deref().map(|blob| self.ledger.blob(blob)).transpose() {
            Ok(context) => context.unwrap_or_default(),
            Err(fault) => return failed(fault.to_string()),
        };
        let request = TaskRequest {
            task_id: wire_id.clone(),
            description: text.prompt,
            params: text.params.into_iter().collect(),
            timeout_seconds: task.timeout_ms.map_or(0, |ms| u32::try_from(ms.div_ceil(1_000)).unwrap_or(u32::MAX)),
            context,
            parent_task_id: order.parent_task.clone().unwrap_or_default(),
            ..TaskRequest::default()
        };
        let host = TaskHost::new(Arc::clone(self), &live, id);
        let drive = live.link.execute(request, None).drive(&host);
        tokio::pin!(drive);
        let ended = tokio::select! {
            ended = &mut drive => ended,
            reason = until_told(&mut used_up) => return self.break_off(&live, id, &wire_id, reason, &mut drive).await,
            () = self.over_time(&live, id, task.timeout_ms) => {
                let seconds = task.timeout_ms.unwrap_or(0) as f64 / 1_000.0;
                let reason = format!("timeout: it took longer than {seconds} s");
                return self.break_off(&live, id, &wire_id, reason, &mut drive).await;
            }
        };
        match ended {
            Ok(ExecutionEnd::Completed(result)) => TaskOutcome::Done(execute_result(result, false)),
            Ok(ExecutionEnd::Failed { message, result }) => {
                let is_partial = self.running.lock().get(&id).is_some_and(|running| running.partial.is_some());
                let result = self.partial_of(id).or(result).map(|result| execute_result(result, is_partial));
                TaskOutcome::Failed { reason: message, result }
            }
            Err(error) if matches!(error.kind, LinkErrorKind::NoInput) => failed("nobody answered its question".to_owned()),
            Err(error) => {
                // A program that ended says so in a moment, in better words.
                if live.end_within(END_KNOWN_WITHIN).await.is_some() && !live.is_ending() {
                    let known = self.until(|world| world.tasks.get(&id).is_none_or(|task| task.state.ended()).then_some(()));
                    // Late or not, what it said of the task is on record below.
                    let _late = tokio::time::timeout(END_KNOWN_WITHIN, known).await;
                }
                let result = self.partial_of(id).map(|result| execute_result(result, true));
                TaskOutcome::Failed { reason: error.to_string(), result }
            }
        }
    }

    fn partial_of(&self, id: TaskId) -> Option<TaskResult> {
        self.running.lock().get_mut(&id).and_then(|running| running.partial.take())
    }

    /// Has a program break a task off that took too long. One that does not listen is killed.
    async fn break_off(
        &self,
        live: &LiveProgram,
        id: TaskId,
        wire_id: &str,
        reason: String,
        drive: &mut (impl Future<Output = Result<ExecutionEnd, hive::LinkError>> + Unpin),
    ) -> TaskOutcome {
        let interrupt = async { live.link.interrupt(wire_id, &reason).await.ok().and_then(|answer| answer.partial_result) };
        let both = async {
            let (partial, ended) = tokio::join!(interrupt, &mut *drive);
            let said = match ended {
                Ok(ExecutionEnd::Completed(result)) => Some(result),
                Ok(ExecutionEnd::Failed { result, .. }) => result,
                Err(_) => None,
            };
            partial.or(said)
        };
        match tokio::time::timeout(INTERRUPT_MAX, both).await {
            Ok(partial) => TaskOutcome::Failed { reason, result: partial.map(|partial| execute_result(partial, true)) },
            Err(_) => {
                // Its task is on record as failed by its time, whatever its end says.
                let outcome = TaskOutcome::Failed { reason: reason.clone(), result: None };
                if let Err(stop) = self.settle_task(id, outcome).await {
                    world::log!("skep: {id}: {stop}");
                }
                live.output.stderr.add(format!("\n{reason}; it did not break off, and was ended\n").as_bytes());
                live.control.kill();
                TaskOutcome::Failed { reason, result: None }
            }
        }
    }

    /// Records what came of a task, and says it.
    async fn settle_task(&self, id: TaskId, outcome: TaskOutcome) -> Result<ExecuteResult, Stop> {
        let (short, whole) = match &outcome {
            TaskOutcome::Done(result) => (Some(self.shortened(result)?), Some(result.clone())),
            TaskOutcome::Failed { result, .. } => (result.as_ref().map(|result| self.shortened(result)).transpose()?, result.clone()),
            TaskOutcome::Left => (None, None),
        };
        let is_stopping = *self.stopping.borrow();
        let pending = self.ledger.commit(|world, _| {
            let Some(task) = world.tasks.get(&id).filter(|task| !task.state.ended()) else { return (Vec::new(), ()) };
            let (pid, result) = (task.pid, short.map(Box::new));
            let event: Event = match &outcome {
                TaskOutcome::Done(done) => {
                    let summary = done.output.lines().next().unwrap_or_default().chars().take(SUMMARY_CHARS).collect();
                    TaskFinished { pid, task: Some(id), summary, result }.into()
                }
                TaskOutcome::Left if task.state == TaskState::Queued => return (Vec::new(), ()),
                TaskOutcome::Failed { reason, .. } if !is_stopping => {
                    TaskFailed { pid, task: Some(id), reason: reason.clone(), result }.into()
                }
                TaskOutcome::Failed { .. } | TaskOutcome::Left => {
                    TaskFailed { pid, task: Some(id), reason: STOPPED.to_owned(), result }.into()
                }
            };
            (vec![event], ())
        })?;
        pending.durable().await?;
        let found = self.ledger.look(|world| world.tasks.get(&id).map(|task| (task.state, task.summary.clone(), task.original.clone())));
        let (state, summary, original) = found.unwrap_or((TaskState::Failed, None, None));
        if state == TaskState::Queued {
            return Err(Refusal::new(Code::WrongState, format!("{STOPPED} before {id} began; it waits for the next start")).into());
        }
        if let Some(name) = original {
            self.ledger.delete_original(name)?;
        }
        match (state, outcome) {
            (TaskState::Done, TaskOutcome::Done(_)) => Ok(whole.unwrap_or_default()),
            (_, TaskOutcome::Failed { reason, .. }) => {
                let reason = summary.unwrap_or(reason);
                Err(Refusal::new(Code::WrongState, format!("task failed: {reason}")).into())
            }
            _ => Err(Refusal::new(Code::WrongState, format!("task failed: {}", summary.unwrap_or_default())).into()),
        }
    }

    /// A result as its record has it.
    fn shortened(&self, result: &ExecuteResult) -> Result<ExecuteResult, Fault> {
        if result.output.len() <= OUTPUT_BYTES_MAX {
            return Ok(result.clone());
        }
        let blob = self.ledger.keep(result.output.as_bytes())?;
        let cut = result.output.floor_char_boundary(OUTPUT_BYTES_MAX);
        Ok(ExecuteResult { output: result.output[..cut].to_owned(), blob: Some(blob), ..result.clone() })
    }
}
