//! Work that is cut short and not over: what another task goes before, what takes too long, and what waits for something that failed.
//!
//! **Invariant.** That it is cut short is on record before anything of it is ended, so a crash in between leaves a task that is taken up again
//! or waits, and nothing that runs.

use crate::Kernel;
use models::RequestOwner;
use std::time::Duration;
use world::event::{CallFinished, CallLost, TaskPaused, TaskStopped};
use world::{CallId, Event, Mode, Pid, RetryCause, Stop, Task, TaskId, TaskState, World};

/// A kernel without any task that has an end looks again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// The end of a task waits for a merge that is under way.
const MERGE_TICK: Duration = Duration::from_millis(250);

/// Records the outcome of each open call of a task that is being cut off, and names them. A request to a model ends with what it cost. What became of a step that changes
/// something nobody knows: it is lost, so that whoever has its session go on is asked before it is made again.
pub(crate) fn cut_calls(world: &World, id: TaskId, why: &str, now_ms: i64, events: &mut Vec<Event>) -> Vec<CallId> {
    let open = world.calls.iter().filter(|(call, open)| open.task == Some(id) && !world.books.reserved.contains_key(call));
    let mut calls = Vec::new();
    for (call, open) in open {
        calls.push(*call);
        if open.is_step && !open.read_only {
            let why = format!("it was {why} while it ran");
            events.push(CallLost { pid: open.pid, task: open.task, call: *call, tool: open.tool.clone(), why }.into());
            continue;
        }
        let output = serde_json::json!({ "error": why });
        let ms = open.open_ms(now_ms);
        events.push(CallFinished { pid: open.pid, task: open.task, call: *call, ok: false, output, blob: None, blob_bytes: 0, ms }.into());
    }
    calls
}

/// Is a brain at work on it, so that it can be cut short?
fn is_interruptible(task: &Task) -> bool {
    task.state == TaskState::Running && task.mode != Mode::Call && task.merge.is_none() && !task.proposes_kept && !agent::is_talk(task)
}

/// The records by which a worker leaves what it does for `first`. What is being merged or talked about comes to its own end.
pub(crate) fn pausing(world: &World, pid: Pid, first: TaskId, now_ms: i64, events: &mut Vec<Event>) -> Option<(TaskId, Vec<CallId>)> {
    let task = world.current_task(pid).filter(|task| is_interruptible(task))?;
    let calls = cut_calls(world, task.id, "interrupted", now_ms, events);
    events.push(TaskPaused { pid, task: Some(task.id), until: first, by: "operator".into() }.into());
    Some((task.id, calls))
}

impl Kernel {
    /// Ends what runs of a task that is on record as cut short.
    pub(crate) async fn end_interrupted(&self, task: TaskId, calls: &[CallId], why: &str) -> Result<(), Stop> {
        let settled = self.models.stop_requests_of(RequestOwner::Task(task), why);
        self.tasks.end_work(task, why).await?;
        settled.await;
        for call in calls {
            self.ledger.delete_original(*call)?;
        }
        Ok(())
    }
}

/// Stops tasks that come after one that failed: a person has them go on, or not.
pub(crate) async fn stop_hopeless(kernel: &Kernel) -> Result<(), Stop> {
    let has_any = kernel.ledger.look(|world| hopeless(world).next().is_some());
    if !has_any {
        return Ok(());
    }
    let pending = kernel.ledger.commit(|world, _| {
        let stopped = hopeless(world).map(|(task, failed)| {
            let reason = format!("{}, which it comes after, {}", failed.id, end_in_words(failed.state));
            TaskStopped { pid: task.pid, task: Some(task.id), reason, cause: RetryCause::After, remedy: None }.into()
        });
        (stopped.collect(), ())
    })?;
    Ok(pending.durable().await?)
}

fn end_in_words(state: TaskState) -> &'static str {
    if state == TaskState::Cancelled { "was cancelled" } else { "failed" }
}

fn hopeless(world: &World) -> impl Iterator<Item = (&Task, &Task)> {
    let queued = world.tasks.values().filter(|task| task.state == TaskState::Queued);
    queued.filter_map(|task| Some((task, world.failed(&task.after)?)))
}

/// Stops tasks whose time is over, and says when to look again.
pub(crate) async fn stop_late(kernel: &Kernel) -> Duration {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let ends: Vec<(TaskId, i64)> = kernel.ledger.look(|world| {
        let limited = world.tasks.values().filter(|task| is_interruptible(task));
        limited.filter_map(|task| Some((task.id, task.times_out_ms()?))).collect()
    });
    let mut next = LOOK_AGAIN;
    for (id, end_ms) in ends {
        if end_ms > now_ms {
            next = next.min(Duration::from_millis(u64::try_from(end_ms - now_ms).unwrap_or(0)));
        } else if let Err(stop) = stop_one(kernel, id).await {
            world::log!("skep: {id} took too long and is not stopped: {stop}");
            next = next.min(MERGE_TICK);
        }
    }
    next
}

async fn stop_one(kernel: &Kernel, id: TaskId) -> Result<(), Stop> {
    let pending = kernel.ledger.commit(|world, now_ms| {
        let Some(task) = world.tasks.get(&id).filter(|task| is_interruptible(task)) else { return (Vec::new(), None) };
        let mut events = Vec::new();
        let calls = cut_calls(world, id, "timeout", now_ms, &mut events);
        let limit = Duration::from_millis(task.timeout_ms.unwrap_or(0));
        let reason = format!("it took longer than the {} that it may", in_words(limit));
        events.push(TaskStopped { pid: task.pid, task: Some(id), reason, cause: RetryCause::Time, remedy: None }.into());
        (events, Some((task.pid, calls)))
    })?;
    let Some((pid, calls)) = pending.durable().await? else { return Ok(()) };
    kernel.end_interrupted(id, &calls, &format!("{id} took too long")).await?;
    kernel.end_workspace(pid, id).await?;
    kernel.tasks.wake();
    Ok(())
}

fn in_words(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (seconds, 0) if seconds >= 60 && seconds % 60 == 0 => format!("{} min", seconds / 60),
        (seconds, 0) => format!("{seconds} s"),
        _ => format!("{} ms", time.as_millis()),
    }
}
