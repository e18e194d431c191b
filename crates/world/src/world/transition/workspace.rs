//! A task's workspace.

use super::{CheckResult, Transition, ensure, task, task_mut};
use crate::event::{WorkspaceBased, WorkspaceClosed, WorkspaceOpened, WorkspacePaused, WorkspaceResumed};
use crate::{Base, TaskId, TaskWorkspace, World};

impl Transition for WorkspaceOpened {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        ensure(task.workspace.is_none(), || format!("{} has a workspace", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.workspace = Some(TaskWorkspace { head: self.head.clone(), since_us: self.since_us, base: None, paused: false });
        }
    }
}

impl Transition for WorkspaceBased {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        let unbased = task.workspace.as_ref().is_some_and(|workspace| workspace.base.is_none());
        ensure(unbased, || format!("{} has no workspace without a base", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(workspace) = task_mut(world, self.task).and_then(|task| task.workspace.as_mut()) {
            workspace.base = Some(Base { head: self.head.clone(), blob: self.blob.clone(), until_us: self.until_us });
        }
    }
}

impl Transition for WorkspaceClosed {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        ensure(task.workspace.is_some(), || format!("{} has no workspace", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.workspace = None;
        }
    }
}

impl Transition for WorkspacePaused {
    fn check(&self, world: &World) -> CheckResult {
        pausable(world, self.task, false)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set_paused(world, self.task, true);
    }
}

impl Transition for WorkspaceResumed {
    fn check(&self, world: &World) -> CheckResult {
        pausable(world, self.task, true)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set_paused(world, self.task, false);
    }
}

fn set_paused(world: &mut World, id: Option<TaskId>, paused: bool) {
    if let Some(workspace) = task_mut(world, id).and_then(|task| task.workspace.as_mut()) {
        workspace.paused = paused;
    }
}

/// A workspace that is, or is not, paused.
fn pausable(world: &World, id: Option<TaskId>, paused: bool) -> CheckResult {
    let task = task(world, id)?;
    let fits = task.workspace.as_ref().is_some_and(|workspace| workspace.paused == paused);
    ensure(fits, || format!("the workspace of {} cannot change so", task.id))
}
