//! What brains say and remember, cassettes, and replays.

use super::{CheckResult, Transition, alive, ensure, in_state, task, task_mut};
use crate::event::{
    BrainRemembered, BrainSaid, BrainServed, BrainTalked, BrainTranscribed, CassetteStarted, ReplayFinished, ReplayStarted,
};
use crate::{TaskState, UNGATED, World};

impl Transition for BrainSaid {}

impl Transition for BrainTranscribed {
    fn check(&self, world: &World) -> CheckResult {
        task(world, self.task).map(drop)
    }

    fn apply(&self, _world: &mut World, _at_ms: i64) {}
}

impl Transition for BrainServed {
    fn check(&self, world: &World) -> CheckResult {
        task(world, self.task).map(drop)
    }

    fn apply(&self, _world: &mut World, _at_ms: i64) {}
}

impl Transition for BrainRemembered {
    fn check(&self, world: &World) -> CheckResult {
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

impl Transition for BrainTalked {
    fn check(&self, world: &World) -> CheckResult {
        task(world, self.task).map(drop)
    }

    /// From here on rules know what kind of work it is.
    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task).filter(|task| self.ungated && !task.tags.iter().any(|tag| tag == UNGATED)) {
            task.tags.push(UNGATED.to_owned());
        }
    }
}

impl Transition for CassetteStarted {
    fn check(&self, world: &World) -> CheckResult {
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
    fn check(&self, world: &World) -> CheckResult {
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
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        ensure(task.replays == Some(self.of), || format!("{} replays something else", task.id))?;
        ensure(!task.compared, || format!("{} was compared already", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.compared = true;
            task.differs = self.difference.is_some();
        }
    }
}
