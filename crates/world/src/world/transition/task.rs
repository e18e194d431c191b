//! Tasks, from the queue to their end.

use super::{Transition, Verdict, alive, ensure, in_state, process, task, task_mut, unended};
use crate::event::{TaskCancelled, TaskFailed, TaskFinished, TaskParked, TaskQueued, TaskStarted, TaskTagged, TaskTried};
use crate::{CallPattern, Pid, ProcessState, ReviewState, Task, TaskId, TaskState, World, limits};

impl Transition for TaskQueued {
    fn check(&self, world: &World) -> Verdict {
        alive(world, self.pid)?;
        ensure(self.task == Some(world.next_task()), || "not the next task id".into())?;
        ensure(world.zones.contains_key(&self.zone), || format!("no {}", self.zone))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let Some(id) = self.task else { return };
        world.last.task = world.last.task.max(id.0);
        let task = Task {
            id,
            pid: self.pid,
            zone: self.zone,
            mode: self.mode,
            prompt: self.prompt.clone(),
            original: self.original.clone(),
            brain: self.brain.clone(),
            priority: self.priority,
            queued_ms: at_ms,
            ended_ms: None,
            state: TaskState::Queued,
            episodes: 0,
            calls_left: self.calls_max,
            calls_settled: 0,
            blob_bytes: 0,
            lost: Vec::new(),
            memory: Vec::new(),
            cassette: None,
            replays: None,
            compared: false,
            tags: Vec::new(),
            rooms: Default::default(),
            in_unknown_room: false,
            discard: self.discard,
            workspace: None,
            merge: None,
            summary: None,
        };
        world.tasks.insert(id, task);
    }
}

impl Transition for TaskTagged {
    fn check(&self, world: &World) -> Verdict {
        in_state(world, self.task, "queued", |state| state == TaskState::Queued)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.tags.clone_from(&self.tags);
        }
    }
}

impl Transition for TaskStarted {
    fn check(&self, world: &World) -> Verdict {
        let task = task(world, self.task)?;
        ensure(!task.state.ended(), || format!("{} has ended", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.state = TaskState::Running;
            task.episodes = self.episode;
        }
        if world.processes.get(&self.pid).is_some_and(|p| p.state == ProcessState::Idle) {
            process::set(world, self.pid, ProcessState::Running);
        }
    }
}

impl Transition for TaskParked {
    fn check(&self, world: &World) -> Verdict {
        ensure(world.reviews.contains_key(&self.review), || format!("no {}", self.review))?;
        in_state(world, self.task, "running", |state| state == TaskState::Running)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.state = TaskState::Parked { review: self.review };
        }
        process::rest(world, self.pid);
    }
}

impl Transition for TaskFinished {
    fn check(&self, world: &World) -> Verdict {
        unended(world, self.task)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        end(world, self.pid, self.task, TaskState::Done, &self.summary, at_ms);
    }
}

impl Transition for TaskFailed {
    fn check(&self, world: &World) -> Verdict {
        unended(world, self.task)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        end(world, self.pid, self.task, TaskState::Failed, &self.reason, at_ms);
    }
}

impl Transition for TaskCancelled {
    fn check(&self, world: &World) -> Verdict {
        unended(world, self.task)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        end(world, self.pid, self.task, TaskState::Cancelled, &format!("cancelled by {}", self.by), at_ms);
    }
}

impl Transition for TaskTried {
    fn check(&self, world: &World) -> Verdict {
        task(world, self.task).map(drop)
    }
}

fn end(world: &mut World, pid: Pid, id: Option<TaskId>, state: TaskState, summary: &str, at_ms: i64) {
    if let Some(task) = task_mut(world, id) {
        task.state = state;
        task.ended_ms = Some(at_ms);
        task.summary = Some(summary.to_owned());
    }
    for review in world.reviews.values_mut() {
        if review.task.is_some() && review.task == id && review.state == ReviewState::Open {
            review.state = ReviewState::Void;
        }
    }
    // A yes for one exact call of this task has nothing left to be used on; a wider one outlives the task that asked.
    world.grants.retain(|_, grant| grant.task.is_none() || grant.task != id || matches!(grant.what, CallPattern::Like { .. }));
    process::rest(world, pid);
    forget_oldest(world);
}

/// Ended tasks leave memory after a while; the journal keeps them.
fn forget_oldest(world: &mut World) {
    let ended = world.tasks.values().filter(|task| task.state.ended()).count();
    let excess = ended.saturating_sub(limits::TASKS_REMEMBERED);
    let old: Vec<TaskId> =
        world.tasks.values().filter(|task| task.state.ended() && task.workspace.is_none()).map(|task| task.id).take(excess).collect();
    for id in old {
        world.tasks.remove(&id);
        world.reviews.retain(|_, review| review.task != Some(id));
        world.merges.retain(|_, merge| merge.task != id);
    }
}
