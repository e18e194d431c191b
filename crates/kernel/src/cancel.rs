//! The end of a task that somebody does not want any more.

use crate::Kernel;
use crate::continue_task::withdrawal;
use crate::interrupt::cut_calls;
use ledger::unknown_task;
use models::RequestOwner;
use std::time::{Duration, Instant};
use world::event::TaskCancelled;
use world::{CallId, Code, Event, Pid, Refusal, Remedy, Stop, TaskId, TaskState, World};

impl Kernel {
    /// Stops a task where it is, and comes back when no process and no request of it is left. What it wrote is kept.
    pub async fn cancel(&self, id: TaskId, by: &str) -> Result<(), Stop> {
        let began = Instant::now();
        let mut follow = self.ledger.journal().follow();
        let mut is_waiting = false;
        // On record first: from here on nothing of it begins.
        let (pid, calls) = loop {
            let pending = self.ledger.commit(|world, now_ms| match cancelled(world, id, by, now_ms) {
                Ok((pid, calls, events)) => (events, Ok((pid, calls))),
                Err(no) => (Vec::new(), Err(no)),
            })?;
            match pending.durable().await? {
                Ok(found) => break found,
                Err(Uncancelled::Refused(refusal)) if is_waiting => return Err(merged_first(self, id).unwrap_or(refusal).into()),
                Err(Uncancelled::Refused(refusal)) => return Err(refusal.into()),
                // Halfway in, a merge is neither the old project nor the new one: it comes to its end first.
                Err(Uncancelled::Applying) => match APPLY_MAX.checked_sub(began.elapsed()) {
                    Some(left) => drop(tokio::time::timeout(left, follow.changed()).await),
                    None => return Err(still_applied(id).into()),
                },
            }
            is_waiting = true;
        };
        // Stopped before its brain is gone, so that what they cost is settled as cancelled.
        let settled = self.models.stop_requests_of(RequestOwner::Task(id), &format!("{id} was cancelled"));
        self.tasks.end_work(id, &format!("{id} was cancelled by {by}")).await?;
        settled.await;
        for call in calls {
            self.ledger.delete_original(call)?;
        }
        self.ledger.forget_questions(Some(id))?;
        self.end_workspace(pid, id).await?;
        // What was a part of it is wanted by nobody now.
        if let Some(part) = self.ledger.look(|world| part_of(world, id)) {
            Box::pin(self.cancel(part, by)).await?;
        }
        self.tasks.wake();
        Ok(())
    }

    /// Takes tasks out of the queue that nobody has begun or goes on with just now; the others are refused, and then none is taken out.
    pub async fn unqueue(&self, ids: &[TaskId], by: &str) -> Result<(), Stop> {
        let pending = self.ledger.commit(|world, _| {
            let mut events = Vec::new();
            for id in ids {
                match world.tasks.get(id) {
                    None => return (Vec::new(), Err(unknown_task(*id))),
                    Some(task) if task.state != TaskState::Queued => {
                        let refusal = Refusal::new(Code::WrongState, format!("{id} is {}, and not in the queue", task.state.as_str()));
                        return (Vec::new(), Err(refusal.remedy(world::Remedy::CancelTask { task: Some(*id) })));
                    }
                    Some(task) => events.push(TaskCancelled { pid: task.pid, task: Some(*id), by: by.to_owned() }.into()),
                }
            }
            (events, Ok(()))
        })?;
        pending.durable().await??;
        for id in ids {
            let pid = self.ledger.task(*id)?.pid;
            self.tasks.end_work(*id, &format!("{id} was cancelled by {by}")).await?;
            self.ledger.forget_questions(Some(*id))?;
            self.end_workspace(pid, *id).await?;
        }
        self.tasks.wake();
        Ok(())
    }
}

/// How long a cancel waits for a merge that is being applied. A large one takes a disk seconds.
const APPLY_MAX: Duration = Duration::from_secs(30);

/// Why a task cannot be cancelled now.
enum Uncancelled {
    Refused(Refusal),
    /// Its changes are being put into the project.
    Applying,
}

/// What a cancel hears that came while the merge was applied, if all of it went in.
fn merged_first(kernel: &Kernel, id: TaskId) -> Option<Refusal> {
    let is_merged = kernel.ledger.look(|world| {
        let merge = world.tasks.get(&id)?.merge?;
        Some(world.merges.get(&merge)?.state == world::MergeState::Applied)
    })?;
    let what = format!("{id} was being merged when you cancelled it, and its changes are in the project now");
    is_merged.then(|| Refusal::new(Code::WrongState, what).hint("undo the merge to take them out again"))
}

fn still_applied(id: TaskId) -> Refusal {
    let what = format!("{id} is being merged: its changes are on their way into the project, and that does not stop halfway");
    Refusal::new(Code::WrongState, what).hint("wait until it is done, then undo the merge to take them out again")
}

fn cancelled(world: &World, id: TaskId, by: &str, now_ms: i64) -> Result<(Pid, Vec<CallId>, Vec<Event>), Uncancelled> {
    let task = world.tasks.get(&id).ok_or_else(|| Uncancelled::Refused(unknown_task(id)))?;
    if task.state.ended() {
        let over = Refusal::new(Code::WrongState, format!("{id} is {} already", task.state.as_str()));
        return Err(Uncancelled::Refused(over.hint("there is nothing to stop").remedy(Remedy::ShowTask { task: id })));
    }
    if let Some(merge) = task.merge.and_then(|merge| world.merges.get(&merge))
        && merge.state == world::MergeState::Applying
    {
        return Err(Uncancelled::Applying);
    }
    let mut events: Vec<Event> = Vec::new();
    let calls = cut_calls(world, id, "cancelled", now_ms, &mut events);
    // What waited for its merge is kept, and can be proposed again.
    events.extend(withdrawal(world, task, by, "its task was cancelled"));
    events.push(TaskCancelled { pid: task.pid, task: Some(id), by: by.to_owned() }.into());
    Ok((task.pid, calls, events))
}

/// The session that does a part of this one's work and goes on.
fn part_of(world: &World, id: TaskId) -> Option<TaskId> {
    let part = world.tasks.get(&id)?.session.as_deref()?.delegate?;
    world.tasks.get(&part).is_some_and(|task| !task.state.ended()).then_some(part)
}
