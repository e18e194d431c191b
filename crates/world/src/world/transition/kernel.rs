//! The kernel itself, its journal and its blobs.

use super::{Transition, Verdict, call, ensure, task_mut};
use crate::World;
use crate::event::{BlobForgotten, JournalAcknowledged, JournalDoubted, JournalResealed, KernelStarted, KernelStopped, RecordsDropped};

impl Transition for KernelStarted {
    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.starts += 1;
    }
}

impl Transition for KernelStopped {}

impl Transition for JournalResealed {}

impl Transition for JournalDoubted {
    fn apply(&self, world: &mut World, at_ms: i64) {
        world.doubts.add(&self.what, &self.why, at_ms);
    }
}

impl Transition for JournalAcknowledged {
    fn check(&self, world: &World) -> Verdict {
        ensure(world.doubts.covers(self.upto), || format!("there is no doubt {}", self.upto))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.doubts.acknowledge(self.upto, &self.by);
    }
}

impl Transition for BlobForgotten {
    fn check(&self, _world: &World) -> Verdict {
        ensure(!self.blobs.is_empty(), || "no blob is named".into())
    }
}

/// Refusals that were not written down one by one count as those that were.
impl Transition for RecordsDropped {
    fn apply(&self, world: &mut World, _at_ms: i64) {
        if self.kind != "call.refused" {
            return;
        }
        if let Some(task) = task_mut(world, self.task).filter(|task| task.pid == self.pid) {
            task.calls_settled += self.count;
        }
        call::spend(world, self.task, self.pid, self.count);
    }
}
