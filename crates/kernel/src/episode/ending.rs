//! How a stretch of work ends that did not come to its end: a brain that failed, was refused or did not ask; and what is on record of it.

use super::{EpisodeEnd, memory};
use crate::{Kernel, call};
use brain::{Brain, BrainFault};
use std::time::Duration;
use world::event::{TaskFailed, TaskStopped};
use world::{Code, Fault, FaultKind, Pid, RetryCause, Stop, Task, TaskId};

/// How long to wait before a task that the disk stopped is tried again.
const RETRY_MS: u64 = 1_000;
/// How often in a row it is tried again where a file cannot be read or written and the disk is not full: what is still so then does not pass.
const IO_TRIES_MAX: u32 = 5;
/// Files that a brain wrote without asking and that have a record each.
const UNASKED_MAX: usize = 10;

/// What follows for a task whose brain failed, or made no move for as long as `patience` is.
pub(super) async fn broken_off(
    kernel: &Kernel,
    task: &Task,
    brain: &mut dyn Brain,
    fault: Option<BrainFault>,
    patience: Duration,
) -> Result<EpisodeEnd, Stop> {
    if let Some(checkpoint) = brain.checkpoint() {
        memory::keep(kernel, task, checkpoint).await?;
    }
    if let Some(refusal) = kernel.models.exhaustion.take(task.id) {
        // In our own words, with what helps, and not in those that its client made of them.
        return Err(refusal.into());
    }
    let told = |text: String| kernel.ledger.redactor.text(&text).into_owned();
    Ok(match fault {
        None => EpisodeEnd::Stopped { reason: no_move(patience, brain), cause: RetryCause::Time },
        Some(BrainFault { what, crashed: true, .. }) => EpisodeEnd::Crashed { reason: told(format!("the brain crashed: {what}")) },
        Some(BrainFault { what, hint, may_retry: Some(cause), .. }) => {
            let fix = hint.map_or_else(String::new, |hint| format!(" (to fix it: {hint})"));
            EpisodeEnd::Stopped { reason: told(format!("the brain stopped: {what}{fix}")), cause }
        }
        Some(fault) => return Err(Fault { fix: fault.hint.clone(), ..Fault::new(FaultKind::Brain, "the brain stopped", fault) }.into()),
    })
}

/// Why a brain that made no move is ended.
fn no_move(patience: Duration, brain: &dyn Brain) -> String {
    let minutes = patience.as_secs() / 60;
    let passed = if minutes > 0 { format!("{minutes} minutes") } else { format!("{} ms", patience.as_millis()) };
    let activity = brain.activity().map_or_else(String::new, |activity| format!("; {activity}"));
    format!("the brain made no move: {passed} passed{activity}")
}

/// What a brain made that used a tool without asking is not merged.
pub(super) fn ungated(tool: &str) -> EpisodeEnd {
    let reason = format!("the brain used `{tool}` without asking, so it was stopped, and nothing was merged");
    EpisodeEnd::Stopped { reason, cause: RetryCause::Fault }
}

/// Ends the work of a brain that wrote files without asking.
pub(super) async fn unasked(kernel: &Kernel, task: &Task, written: &[String]) -> Result<EpisodeEnd, Stop> {
    for path in written.iter().take(UNASKED_MAX) {
        call::record_ungated(kernel, task, &format!("write of {path}")).await?;
    }
    let named: Vec<String> = written.iter().take(UNASKED_MAX).map(|path| format!("`{path}`")).collect();
    let more = written.len().saturating_sub(UNASKED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let reason = format!("the brain wrote {}{more} without asking, so it was stopped, and nothing was merged", named.join(", "));
    Ok(EpisodeEnd::Stopped { reason, cause: RetryCause::Fault })
}

/// A task ends with the reason for its end on record. Where nothing can be recorded it waits for better times, and where a file cannot be read or
/// written some seconds.
pub(super) async fn fail_or_retry(kernel: &Kernel, pid: Pid, id: TaskId, stop: Stop) {
    let (reason, waits) = match &stop {
        Stop::Refused(refusal) => (refusal.reason.clone(), false),
        Stop::Failed(fault) => {
            let may_pass = fault.kind == FaultKind::Io && tries(kernel, id) < IO_TRIES_MAX;
            (fault.to_string(), may_pass || matches!(fault.kind, FaultKind::DiskFull | FaultKind::Stopping))
        }
    };
    // What was cut short on purpose is taken up again, and has not failed.
    let is_left = kernel.ledger.look(|world| world.tasks.get(&id).is_some_and(|task| task.paused_for.is_some() || task.state.at_rest()));
    if kernel.instance.stopping() || is_left {
        return;
    }
    // A record of a failure has one line for whoever looks at it later, so the remedy stands in it.
    let (advice, remedy) = match &stop {
        Stop::Refused(refusal) => (refusal.advice(), refusal.remedy.clone()),
        Stop::Failed(fault) => (fault.advice(), None),
    };
    let advised = advice.map_or(reason.clone(), |advice| format!("{reason} (to fix it: {advice})"));
    let failed = match retry_cause(&stop) {
        _ if waits => Err(advised),
        Some(cause) => {
            // What a refusal advises is meant for the brain; what a person can do is the remedy, or to have it go on.
            let reason = if matches!(stop, Stop::Refused(_)) { reason } else { advised };
            self::stop(kernel, pid, id, Stopping { reason, cause, remedy }).await.map_err(|stop| stop.to_string())
        }
        None => fail(kernel, pid, id, advised).await.map_err(|fault| fault.to_string()),
    };
    match failed {
        Ok(()) => drop(kernel.tasks.unreadable.lock().remove(&id)),
        Err(why) => {
            world::log!("skep: {id} waits: {why}");
            tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
        }
    }
}

/// Counts one more try of a task in a row.
fn tries(kernel: &Kernel, id: TaskId) -> u32 {
    let mut unreadable = kernel.tasks.unreadable.lock();
    let tries = unreadable.entry(id).or_default();
    *tries += 1;
    *tries
}

/// Why a task could not go on, where going on later can help.
fn retry_cause(stop: &Stop) -> Option<RetryCause> {
    match stop {
        Stop::Refused(refusal) => (refusal.code == Code::Exhausted).then_some(RetryCause::Budget),
        Stop::Failed(fault) => (fault.kind != FaultKind::Brain).then_some(RetryCause::Fault),
    }
}

/// Why a task cannot go on now, and what lets it.
pub(super) struct Stopping {
    pub reason: String,
    pub cause: RetryCause,
    pub remedy: Option<Box<world::Remedy>>,
}

/// Records that a task waits to be retried, and closes its workspace. A replay does not wait: it has ended, and differs.
pub(super) async fn stop(kernel: &Kernel, pid: Pid, id: TaskId, stopping: Stopping) -> Result<(), Stop> {
    let Stopping { reason, cause, remedy } = stopping;
    let pending = kernel.ledger.commit(|world, _| match world.tasks.get(&id) {
        Some(task) if task.state.at_rest() => (Vec::new(), ()),
        Some(task) if task.replays.is_some() => (vec![TaskFailed { pid, task: Some(id), reason, result: None }.into()], ()),
        Some(task) => {
            // Its model was refused because it had made all its calls.
            let is_refused = matches!(cause, RetryCause::Budget | RetryCause::Model);
            let cause = if task.calls_left == Some(0) && is_refused { RetryCause::Calls } else { cause };
            (vec![TaskStopped { pid, task: Some(id), reason, cause, remedy }.into()], ())
        }
        None => (Vec::new(), ()),
    })?;
    pending.durable().await?;
    Ok(kernel.close_workspace(pid, id).await?)
}

/// Records that a task failed, and closes its workspace.
pub(crate) async fn fail(kernel: &Kernel, pid: Pid, id: TaskId, reason: String) -> Result<(), Fault> {
    let pending = kernel.ledger.commit(|world, _| match world.tasks.get(&id) {
        Some(task) if !task.state.ended() => (vec![TaskFailed { pid, task: Some(id), reason, result: None }.into()], ()),
        _ => (Vec::new(), ()),
    })?;
    pending.durable().await?;
    kernel.close_workspace(pid, id).await
}
