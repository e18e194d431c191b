//! What brains say and remember, cassettes, and replays.

use super::{Transition, Verdict, alive, ensure, in_state, task, task_mut};
use crate::event::{BrainRemembered, BrainSaid, CassetteStarted, ReplayFinished, ReplayStarted};
use crate::{TaskState, World};

impl Transition for BrainSaid {}

impl Transition for BrainRemembered {
    fn check(&self, world: &World) -> Verdict {
        task(world, self.task).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            if self.anew {
                task.memory.clear();
            }
            task.memory.push(self.blob.clone());
        }
    }
}

impl Transition for CassetteStarted {
    fn check(&self, world: &World) -> Verdict {
        match self.task {
            Some(_) => task(world, self.task).map(drop),
            None => alive(world, self.pid),
        }
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.cassette = Some(self.file.clone());
        }
    }
}

impl Transition for ReplayStarted {
    fn check(&self, world: &World) -> Verdict {
        task(world, Some(self.of))?;
        in_state(world, self.task, "queued", |state| state == TaskState::Queued)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.replays = Some(self.of);
        }
    }
}

impl Transition for ReplayFinished {
    fn check(&self, world: &World) -> Verdict {
        let task = task(world, self.task)?;
        ensure(task.replays == Some(self.of), || format!("{} replays something else", task.id))?;
        ensure(!task.compared, || format!("{} was compared already", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.compared = true;
        }
    }
}
