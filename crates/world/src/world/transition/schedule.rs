//! A task's place in its worker's queue.

use super::{CheckResult, Transition, ensure, in_state, process, task, task_mut};
use crate::event::{TaskPaused, TaskPrioritized, TaskScheduled};
use crate::{TaskState, World};

impl Transition for TaskScheduled {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        ensure(task.state == TaskState::Queued && task.episodes == 0, || format!("{} was begun", task.id))?;
        // A later task may wait for an earlier one and never the other way, so nobody waits in a circle.
        ensure(self.after.iter().all(|other| *other < task.id), || format!("{} would wait for itself", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.after.clone_from(&self.after);
            task.timeout_ms = self.timeout_ms;
        }
    }
}

impl Transition for TaskPrioritized {
    fn check(&self, world: &World) -> CheckResult {
        in_state(world, self.task, "queued", |state| state == TaskState::Queued)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.priority = self.priority;
        }
    }
}

impl Transition for TaskPaused {
    fn check(&self, world: &World) -> CheckResult {
        in_state(world, self.task, "running", |state| state == TaskState::Running)?;
        let merge = task(world, self.task)?.merge;
        ensure(merge.is_none(), || "its changes are being merged".into())
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.state = TaskState::Queued;
            task.paused_for = Some(self.until);
            task.rest(at_ms);
        }
        process::rest(world, self.pid);
    }
}
