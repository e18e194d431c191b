//! Merges, from the proposal to the undo.

use super::{CheckResult, Transition, ensure, task, task_mut, unended};
use crate::event::{
    CommitsImported, CommitsRefused, MergeCommitted, MergeCommitting, MergeFinished, MergeProposed, MergeRejected, MergeResolved,
    MergeStarted, MergeTested, MergeUncommitted, MergeUndoBegun, MergeUndone,
};
use crate::{Merge, MergeId, MergeState, PreparedCommit, Used, World};

impl Transition for MergeProposed {
    fn check(&self, world: &World) -> CheckResult {
        task(world, self.task)?;
        ensure(self.merge == world.next_merge(), || format!("{} is not the next", self.merge))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.last.merge = world.last.merge.max(self.merge.0);
        let Some(id) = self.task else { return };
        let merge = Merge {
            id: self.merge,
            task: id,
            digest: self.digest.clone(),
            frozen: self.frozen.clone(),
            state: MergeState::Proposed,
            sides: Default::default(),
            only: Vec::new(),
            commit: None,
            prepared: None,
            snapshot: None,
            left: Default::default(),
        };
        world.merges.insert(self.merge, merge);
        if let Some(task) = task_mut(world, self.task) {
            task.merge = Some(self.merge);
            task.summary = Some(self.summary.clone());
        }
    }
}

impl Transition for MergeResolved {
    fn check(&self, world: &World) -> CheckResult {
        has_state(world, self.merge, MergeState::Proposed)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(merge) = world.merges.get_mut(&self.merge) {
            merge.sides.clone_from(&self.sides);
            merge.only.clone_from(&self.only);
            merge.commit.clone_from(&self.commit);
        }
    }
}

impl Transition for MergeCommitting {
    fn check(&self, world: &World) -> CheckResult {
        has_state(world, self.merge, MergeState::Applying)?;
        ensure(world.merges.get(&self.merge).is_some_and(|merge| merge.commit.is_some()), || format!("{} wants no commit", self.merge))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(merge) = world.merges.get_mut(&self.merge) {
            let (commit, parent, reference) = (self.commit.clone(), self.parent.clone(), self.reference.clone());
            merge.prepared = Some(PreparedCommit { commit, parent, reference, is_made: false });
        }
    }
}

impl Transition for MergeCommitted {
    fn check(&self, world: &World) -> CheckResult {
        has_state(world, self.merge, MergeState::Applying)?;
        let prepared = world.merges.get(&self.merge).and_then(|merge| merge.prepared.as_ref());
        ensure(prepared.is_some_and(|prepared| prepared.commit == self.commit), || format!("{} prepared no such commit", self.merge))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(prepared) = world.merges.get_mut(&self.merge).and_then(|merge| merge.prepared.as_mut()) {
            prepared.is_made = true;
        }
    }
}

impl Transition for MergeUncommitted {
    fn check(&self, world: &World) -> CheckResult {
        has_state(world, self.merge, MergeState::Applying)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(merge) = world.merges.get_mut(&self.merge) {
            merge.prepared = None;
        }
    }
}

impl Transition for MergeTested {
    fn check(&self, world: &World) -> CheckResult {
        has_state(world, self.merge, MergeState::Proposed)
    }
}

impl Transition for MergeStarted {
    fn check(&self, world: &World) -> CheckResult {
        unended(world, self.task)?;
        has_state(world, self.merge, MergeState::Proposed)?;
        for id in &self.grants {
            let uses = self.grants.iter().filter(|other| *other == id).count();
            let left = world.grants.get(id).ok_or_else(|| format!("no {id}"))?.terms.uses_left;
            ensure(left.is_none_or(|left| left as usize >= uses), || format!("{id} is used up"))?;
        }
        Ok(())
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        set(world, self.merge, MergeState::Applying);
        if let Some(merge) = world.merges.get_mut(&self.merge) {
            merge.snapshot.clone_from(&self.snapshot);
        }
        for id in &self.grants {
            if let Some(grant) = world.grants.get_mut(id) {
                grant.use_once(Used { at_ms, up: self.up.clone() });
            }
        }
    }
}

impl Transition for MergeFinished {
    fn check(&self, world: &World) -> CheckResult {
        has_state(world, self.merge, MergeState::Applying)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.merge, MergeState::Applied);
    }
}

impl Transition for MergeRejected {
    fn check(&self, world: &World) -> CheckResult {
        has_state(world, self.merge, MergeState::Proposed)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.merge, MergeState::Rejected);
    }
}

impl Transition for MergeUndoBegun {
    fn check(&self, world: &World) -> CheckResult {
        match world.merges.get(&self.merge) {
            Some(merge) if merge.is_partly_undone() => Ok(()),
            _ => has_state(world, self.merge, MergeState::Applied),
        }
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.merge, MergeState::Undoing);
    }
}

impl Transition for MergeUndone {
    fn check(&self, world: &World) -> CheckResult {
        has_state(world, self.merge, MergeState::Undoing)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.merge, MergeState::Undone);
        if let Some(merge) = world.merges.get_mut(&self.merge) {
            merge.left = self.paths.iter().filter(|path| path.refused.is_some()).map(|path| path.path.clone()).collect();
        }
        // What it did to coverage is undone with it.
        for zone in world.zones.values_mut() {
            if zone.coverage.as_ref().is_some_and(|coverage| coverage.merge == self.merge) {
                zone.coverage = zone.coverage.take().and_then(|coverage| coverage.before);
            }
        }
    }
}

fn set(world: &mut World, id: MergeId, state: MergeState) {
    if let Some(merge) = world.merges.get_mut(&id) {
        merge.state = state;
    }
}

fn has_state(world: &World, id: MergeId, wanted: MergeState) -> CheckResult {
    ensure(world.merges.get(&id).is_some_and(|m| m.state == wanted), || format!("{id} is not {wanted:?}"))
}

impl Transition for CommitsImported {
    fn check(&self, world: &World) -> CheckResult {
        task(world, self.task).map(drop)
    }

    fn apply(&self, _world: &mut World, _at_ms: i64) {}
}

impl Transition for CommitsRefused {
    fn check(&self, world: &World) -> CheckResult {
        task(world, self.task).map(drop)
    }

    fn apply(&self, _world: &mut World, _at_ms: i64) {}
}
