//! The kernel itself, its journal and its blobs.

use super::{CheckResult, Transition, call, ensure, program, task_mut};
use crate::event::{
    BlobForgotten, ConfigLoaded, ConfigRejected, JournalAcknowledged, JournalDoubted, JournalResealed, KernelStarted, KernelStopped,
    RecordsDropped,
};
use crate::{Pid, Scope, World};

impl Transition for KernelStarted {
    fn apply(&self, world: &mut World, at_ms: i64) {
        world.starts += 1;
        program::end_all(world, at_ms);
        world.is_running = true;
        // Time that passes without a kernel is nobody's.
        world.tasks.values_mut().for_each(|task| task.running_since_ms = None);
        // The operator's session is one run of the kernel.
        let is_over = |scope: &Scope, pid: Pid| matches!(scope, Scope::Session { .. }) && pid == Pid::OPERATOR;
        world.grants.retain(|_, grant| !is_over(&grant.scope, grant.pid));
        world.bans.retain(|_, ban| !is_over(&ban.scope, ban.pid));
    }
}

impl Transition for KernelStopped {
    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.is_running = false;
    }
}

impl Transition for JournalResealed {}

impl Transition for ConfigLoaded {}

impl Transition for ConfigRejected {}

impl Transition for JournalDoubted {
    fn apply(&self, world: &mut World, at_ms: i64) {
        world.doubts.add(&self.what, &self.why, at_ms);
    }
}

impl Transition for JournalAcknowledged {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.doubts.covers(self.upto), || format!("there is no doubt {}", self.upto))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.doubts.acknowledge(self.upto, &self.by);
    }
}

impl Transition for BlobForgotten {
    fn check(&self, _world: &World) -> CheckResult {
        ensure(!self.blobs.is_empty(), || "no blob is named".into())
    }

    /// What a list of kept work named is not found without the list.
    fn apply(&self, world: &mut World, _at_ms: i64) {
        for task in world.tasks.values_mut() {
            if task.kept.as_ref().is_some_and(|kept| self.blobs.contains(&kept.blob)) {
                task.kept = None;
            }
        }
    }
}

/// Refusals that were not written down one by one count as those that were.
impl Transition for RecordsDropped {
    fn apply(&self, world: &mut World, _at_ms: i64) {
        // What a brain read of the process table, which has no records of its own.
        if self.kind == "proc.info" {
            call::spend(world, self.task, self.pid, self.count);
        }
        if self.kind != "call.refused" {
            return;
        }
        if let Some(task) = task_mut(world, self.task).filter(|task| task.pid == self.pid) {
            task.calls_settled += self.count;
        }
        call::spend(world, self.task, self.pid, self.count);
    }
}
