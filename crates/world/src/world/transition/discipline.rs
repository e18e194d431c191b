//! Test-first, from the mode to the evidence.

use super::{CheckResult, Transition, ensure, task, task_mut, unended};
use crate::discipline::EXPLORE_LOCK;
use crate::event::{
    CoverageJudged, DisciplineSwitched, ExemptionGranted, ExemptionRefused, FilesPutBack, TestsRan, WorkflowEntered, WorkflowStalled,
};
use crate::{Discipline, MergeState, Task, TaskId, TestPurpose, Workflow, WorkflowState, World, ZoneCoverage};

impl Transition for DisciplineSwitched {
    fn check(&self, world: &World) -> CheckResult {
        unended(world, self.task)?;
        let mode = task(world, self.task)?.workflow.as_ref().map(|workflow| workflow.mode);
        ensure(mode == self.was, || "the mode is another already".into())?;
        let locks = self.mode != Discipline::Strict && is_locked(world, task(world, self.task)?);
        ensure(!locks, || EXPLORE_LOCK.into())
    }

    /// What was written while tests did not come first stays unverified; who turns to strict begins anew.
    fn apply(&self, world: &mut World, _at_ms: i64) {
        let Some(task) = task_mut(world, self.task) else { return };
        let workflow = task.workflow.get_or_insert_with(|| Box::new(Workflow::new(self.mode)));
        if workflow.mode == self.mode {
            return;
        }
        workflow.mode = self.mode;
        workflow.unverified |= self.mode != Discipline::Strict;
        workflow.stalled = 0;
        match (self.mode, workflow.state) {
            (Discipline::Strict, WorkflowState::Exploring | WorkflowState::RetroactiveTesting | WorkflowState::Validating) => {
                **workflow = Workflow { base: workflow.base.take(), put_back: workflow.put_back, ..Workflow::new(self.mode) };
            }
            (Discipline::Explore | Discipline::Debug, WorkflowState::TestWriting | WorkflowState::CodeWriting) => {
                workflow.state = WorkflowState::Exploring;
            }
            _ => {}
        }
    }
}

impl Transition for WorkflowEntered {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        let workflow = held(task)?;
        ensure((workflow.mode, workflow.state) == (self.mode, self.from), || format!("{} is {}", task.id, workflow.state))?;
        let is_merging = task.merge.and_then(|merge| world.merges.get(&merge)).is_some_and(|merge| merge.state == MergeState::Applying);
        let is_explored = workflow.mode != Discipline::Strict && self.to == WorkflowState::Reviewing;
        ensure(!is_explored || !is_locked(world, task), || EXPLORE_LOCK.into())?;
        match workflow.objection_to(self.to, is_merging) {
            Some(why) => Err(format!("{} to {}: {why}", self.from, self.to)),
            None => Ok(()),
        }
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let Some(workflow) = task_mut(world, self.task).and_then(|task| task.workflow.as_deref_mut()) else { return };
        workflow.state = self.to;
        // INVARIANT: in `idle`, tests that passed stand beside the list of exactly the files that they passed on.
        if self.snapshot.is_some() {
            workflow.snapshot.clone_from(&self.snapshot);
        }
        let was_validating = self.from == WorkflowState::Validating;
        match self.to {
            // What was seen stays known until the work begins anew.
            WorkflowState::Planning => {
                *workflow = Workflow { state: self.to, base: None, put_back: 0, ..Workflow::new(workflow.mode) };
            }
            WorkflowState::TestWriting => (workflow.red, workflow.green) = (None, None),
            WorkflowState::Idle => forget_unreviewed(workflow, self.from),
            WorkflowState::CodeWriting | WorkflowState::Exploring | WorkflowState::RetroactiveTesting => workflow.green = None,
            _ => {}
        }
        if self.to.is_writing() && was_validating {
            workflow.stalled += 1;
        } else if self.to != WorkflowState::Validating {
            workflow.stalled = 0;
        }
    }
}

impl Transition for TestsRan {
    fn check(&self, world: &World) -> CheckResult {
        held(task(world, self.task)?).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let Some(workflow) = task_mut(world, self.task).and_then(|task| task.workflow.as_deref_mut()) else { return };
        let run = Some((*self.run).clone());
        match self.run.purpose {
            TestPurpose::Base => workflow.base = run,
            TestPurpose::Red => workflow.red = run,
            TestPurpose::Green => workflow.green = run,
        }
    }
}

impl Transition for CoverageJudged {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        let zone = world.zones.get(&self.zone).ok_or_else(|| format!("no {}", self.zone))?;
        ensure(task.zone == zone.id && task.merge == Some(self.merge), || format!("{} is no merge of {}", self.merge, self.zone))?;
        let was = zone.coverage.as_ref().map(|coverage| coverage.baseline);
        ensure(was == self.was, || "the baseline is another already".into())?;
        // What was explored moves nothing but the lock, and never lifts it.
        let keeps = self.mode == Discipline::Strict
            || ((was.is_none() || was == Some(self.baseline)) && (self.locked || !zone.is_explore_locked()));
        ensure(keeps, || "only strict work moves the baseline and lifts the lock".into())
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let (Some(task), Some(zone)) = (self.task, world.zones.get_mut(&self.zone)) else { return };
        // One step back is enough: only the last merge of a zone can be undone as if it had not been.
        let before = zone.coverage.take().map(|coverage| Box::new(ZoneCoverage { before: None, ..*coverage }));
        let (baseline, baseline_files, now) = (self.baseline, self.baseline_files.clone(), self.now.clone());
        let coverage = ZoneCoverage { baseline, baseline_files, now, locked: self.locked, merge: self.merge, task, before };
        zone.coverage = Some(Box::new(coverage));
    }
}

impl Transition for ExemptionGranted {
    fn check(&self, world: &World) -> CheckResult {
        let workflow = held(task(world, self.task)?)?;
        let may = matches!(workflow.state, WorkflowState::Planning | WorkflowState::TestWriting);
        ensure(may && workflow.is_test_first(), || format!("the work is {}", workflow.state))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(workflow) = task_mut(world, self.task).and_then(|task| task.workflow.as_deref_mut()) {
            workflow.exemption = Some((*self.exemption).clone());
        }
    }
}

impl Transition for ExemptionRefused {}

impl Transition for FilesPutBack {
    fn check(&self, world: &World) -> CheckResult {
        held(task(world, self.task)?).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(workflow) = task_mut(world, self.task).and_then(|task| task.workflow.as_deref_mut()) {
            workflow.put_back += self.count;
        }
    }
}

impl Transition for WorkflowStalled {
    fn check(&self, world: &World) -> CheckResult {
        held(task(world, self.task)?).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(workflow) = task_mut(world, self.task).and_then(|task| task.workflow.as_deref_mut()) {
            workflow.stalled += 1;
        }
    }
}

fn is_locked(world: &World, task: &Task) -> bool {
    world.zones.get(&task.zone).is_some_and(crate::Zone::is_explore_locked)
}

fn held(task: &Task) -> Result<&Workflow, String> {
    task.workflow.as_deref().ok_or_else(|| format!("{} is not held to tests first", task.id))
}

/// A task that somebody does not want any more begins anew, if it ever does.
pub(super) fn reset(world: &mut World, id: Option<TaskId>) {
    if let Some(workflow) = task_mut(world, id).and_then(|task| task.workflow.as_deref_mut()) {
        let from = std::mem::replace(&mut workflow.state, WorkflowState::Idle);
        forget_unreviewed(workflow, from);
    }
}

/// Tests that passed count for the files of the review that they led to. Work that ends before it has none.
fn forget_unreviewed(workflow: &mut Workflow, from: WorkflowState) {
    if !matches!(from, WorkflowState::Idle | WorkflowState::Reviewing | WorkflowState::Committing) {
        workflow.green = None;
    }
}
