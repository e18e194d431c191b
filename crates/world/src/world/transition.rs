//! One kind of event as a step of the world: what must hold before it, and what the world is after it.
//!
//! A file for each noun, with both halves of its state machine side by side. **Invariant.** After `check` is `Ok`, `apply` has its full
//! effect; `apply` cannot fail.

mod brain;
mod budget;
mod byte_stream;
mod call;
mod consent;
mod discipline;
mod kernel;
mod merge;
mod message;
mod process;
mod program;
mod schedule;
mod session;
mod shared;
mod task;
mod workspace;
mod zone;

use super::World;
use crate::{Pid, Task, TaskId, TaskState};

pub(super) type CheckResult = Result<(), String>;

/// Implemented by every event; [`crate::event::Event`] leads to the right one.
pub(crate) trait Transition {
    /// May it be recorded now? Most facts can follow anything.
    fn check(&self, _world: &World) -> CheckResult {
        Ok(())
    }

    /// Changes the world as the event, which happened at `at_ms`, says. Some events only tell.
    fn apply(&self, _world: &mut World, _at_ms: i64) {}
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(why()) }
}

fn alive(world: &World, pid: Pid) -> CheckResult {
    ensure(world.processes.get(&pid).is_some_and(|p| p.state.alive()), || format!("process {pid} is not alive"))
}

fn task(world: &World, id: Option<TaskId>) -> Result<&Task, String> {
    let id = id.ok_or("no task is named")?;
    world.tasks.get(&id).ok_or_else(|| format!("no {id}"))
}

fn in_state(world: &World, id: Option<TaskId>, wanted: &str, is: impl Fn(TaskState) -> bool) -> CheckResult {
    let task = task(world, id)?;
    ensure(is(task.state), || format!("{} is {}, not {wanted}", task.id, task.state.as_str()))
}

fn unended(world: &World, id: Option<TaskId>) -> CheckResult {
    in_state(world, id, "unended", |state| !state.ended())
}

fn task_mut(world: &mut World, id: Option<TaskId>) -> Option<&mut Task> {
    id.and_then(|id| world.tasks.get_mut(&id))
}
