//! The end of a phase, and what comes after it.

use crate::boundary::Boundary;
use crate::test_run::RunFindings;
use crate::{PhaseWork, TestFirst};
use workflow::discipline::{PathKinds, phase_prompt};
use workspace::{RoomSnapshot, State};
use world::discipline::{EXPLORE_LOCK, GREEN_GUARD, RED_GUARD};
use world::event::{WorkflowEntered, WorkflowStalled};
use world::{Discipline, Fault, FaultKind, Stop, Task, TestEvidence, TestOutcome, TestPurpose, Workflow, WorkflowState};

/// Turns without getting on, after which a task stops and waits for a person.
pub const STALLED_MAX: u32 = 6;

/// What came of a phase that somebody calls complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseEnd {
    /// What the brain is told: what came of it, and the state that it is in now.
    pub told: String,
    pub state: WorkflowState,
    /// The work is where it was, and this is why.
    pub stalled: Option<String>,
}

impl PhaseEnd {
    /// Is there nothing left for the brain to do?
    pub fn is_over(&self) -> bool {
        !self.state.is_writing() && self.state != WorkflowState::Planning
    }
}

impl TestFirst<'_> {
    fn workflow(&self, task: &Task) -> Result<Workflow, Stop> {
        let now = self.ledger.task(task.id)?;
        let none = || Fault::new(FaultKind::Bug, "a task has no phases", task.id);
        Ok(now.workflow.as_deref().cloned().ok_or_else(none)?)
    }

    async fn enter(&self, task: &Task, to: WorkflowState, why: &str, snapshot: Option<String>) -> Result<(), Stop> {
        let workflow = self.workflow(task)?;
        let (pid, id, mode, from) = (task.pid, Some(task.id), workflow.mode, workflow.state);
        Ok(self.ledger.record(WorkflowEntered { pid, task: id, mode, from, to, why: why.to_owned(), snapshot }).await?)
    }

    /// Takes up work that is over, was seen to pass and is not in, or not whole: what is kept of it goes back to its review as it was seen.
    pub async fn review_again(&self, task: &Task, is_kept: &(dyn Fn(&str) -> bool + Sync)) -> Result<(), Stop> {
        let mut seen = self.phase_start(&self.workflow(task)?)?;
        seen.paths.retain(|path, _| is_kept(path));
        let snapshot = self.ledger.keep(&seen.to_bytes()?)?;
        self.enter(task, WorkflowState::Reviewing, "its tests were seen to pass, and it is not in", Some(snapshot)).await
    }

    /// Begins the work on a task, or goes on with one whose merge was sent back.
    pub async fn begin(&self, task: &Task) -> Result<(), Stop> {
        let workflow = self.workflow(task)?;
        match workflow.state {
            WorkflowState::Idle => self.enter(task, WorkflowState::Planning, "a message", None).await,
            WorkflowState::Reviewing => {
                let back = match workflow.mode {
                    Discipline::Strict if workflow.exemption.is_none() => WorkflowState::CodeWriting,
                    Discipline::Strict => WorkflowState::Exploring,
                    // Who explored and sends nothing but code is asked for the tests of it.
                    _ if self.has_tests(task, &self.phase_start(&workflow)?)? => WorkflowState::Exploring,
                    _ => WorkflowState::RetroactiveTesting,
                };
                self.enter(task, back, "the merge was sent back", None).await
            }
            _ => Ok(()),
        }
    }

    fn has_tests(&self, task: &Task, files: &RoomSnapshot) -> Result<bool, Stop> {
        let project = self.gate.policies.in_force(task.zone)?;
        Ok(files.paths.iter().any(|(path, state)| matches!(state, State::File { .. }) && project.tests.is_test(path)))
    }

    /// Ends the planning of a task: nothing was to be written in it, so nothing is looked at before the next phase ends.
    pub async fn end_planning(&self, task: &Task) -> Result<PhaseEnd, Stop> {
        let workflow = self.workflow(task)?;
        let to = if workflow.is_test_first() { WorkflowState::TestWriting } else { WorkflowState::Exploring };
        self.enter(task, to, "the plan is complete", None).await?;
        self.end(task, String::new(), None)
    }

    /// Ends the present phase of a task in whose room nothing runs.
    pub async fn complete(&self, work: &PhaseWork<'_>) -> Result<PhaseEnd, Stop> {
        let workflow = self.workflow(work.task)?;
        match workflow.state {
            WorkflowState::Idle | WorkflowState::Committing => self.end(work.task, String::new(), None),
            WorkflowState::Planning => self.end_planning(work.task).await,
            WorkflowState::TestWriting => self.end_tests(work, &workflow).await,
            WorkflowState::CodeWriting | WorkflowState::Exploring | WorkflowState::RetroactiveTesting => {
                self.end_writing(work, &workflow).await
            }
            WorkflowState::Validating => {
                let boundary = self.boundary(work, &workflow).await?;
                self.validate(work, boundary).await
            }
            WorkflowState::Reviewing => {
                // What was written after the tests were seen to pass is not what they passed on.
                let boundary = self.boundary(work, &workflow).await?;
                self.end(work.task, boundary.told(), None)
            }
        }
    }

    /// New tests must exist, have been run, and fail.
    async fn end_tests(&self, work: &PhaseWork<'_>, workflow: &Workflow) -> Result<PhaseEnd, Stop> {
        let boundary = self.boundary(work, workflow).await?;
        if !self.has_tests(work.task, &boundary.snapshot)? {
            return self.stall(work.task, &boundary, format!("{RED_GUARD}: no test was written")).await;
        }
        let base = match &workflow.base {
            Some(base) => base.clone(),
            None => self.see_base(work, workflow).await?,
        };
        let mut run = self.see_tests(work, &boundary.snapshot).await?;
        let findings = self.look_at_tests(work, &boundary.snapshot, run.as_ref())?;
        let red = self.record_run(work, workflow, &boundary.snapshot, TestPurpose::Red, run.as_mut(), findings).await?;
        if let Some(why) = not_red(&base, &red) {
            return self.stall(work.task, &boundary, format!("{RED_GUARD}: {why}")).await;
        }
        let snapshot = self.ledger.keep(&boundary.snapshot.to_bytes()?)?;
        self.enter(work.task, WorkflowState::CodeWriting, &seen(&red), Some(snapshot)).await?;
        self.end(work.task, join(boundary.told(), format!("[RED] {}", seen(&red))), None)
    }

    /// How the project was before the task.
    async fn see_base(&self, work: &PhaseWork<'_>, workflow: &Workflow) -> Result<TestEvidence, Stop> {
        let (files, none) = (RoomSnapshot::default(), RunFindings::default());
        let mut run = self.see_tests(work, &files).await?;
        self.record_run(work, workflow, &files, TestPurpose::Base, run.as_mut(), none).await
    }

    /// Something must have changed; then the tests decide.
    async fn end_writing(&self, work: &PhaseWork<'_>, workflow: &Workflow) -> Result<PhaseEnd, Stop> {
        let boundary = self.boundary(work, workflow).await?;
        if boundary.snapshot.changed_since(&self.phase_start(workflow)?).is_empty() && boundary.snapshot.is_empty() {
            return self.stall(work.task, &boundary, "Nothing was changed in this phase".to_owned()).await;
        }
        if workflow.is_test_first() && boundary.snapshot == self.phase_start(workflow)? && workflow.green.is_none() && workflow.stalled == 0
        {
            return self.stall(work.task, &boundary, "No source was changed in this phase".to_owned()).await;
        }
        if let Some(why) = self.unproven(work, workflow, &boundary.snapshot)? {
            return self.stall(work.task, &boundary, why).await;
        }
        self.enter(work.task, WorkflowState::Validating, "changes exist", None).await?;
        self.validate(work, boundary).await
    }

    /// All tests must pass, and none of them say less than it did when it failed.
    async fn validate(&self, work: &PhaseWork<'_>, boundary: Boundary) -> Result<PhaseEnd, Stop> {
        let mut workflow = self.workflow(work.task)?;
        if self.wants_base_coverage(work.task, &workflow)? {
            self.see_base(work, &workflow).await?;
            workflow = self.workflow(work.task)?;
        }
        let mut run = self.see_tests(work, &boundary.snapshot).await?;
        let findings = self.look_again(work, &workflow, &boundary.snapshot, run.as_ref()).await?;
        let green = self.record_run(work, &workflow, &boundary.snapshot, TestPurpose::Green, run.as_mut(), findings).await?;
        let workflow = self.workflow(work.task)?;
        if workflow.mode != Discipline::Strict && self.is_explore_locked(work.task.zone) {
            let why = EXPLORE_LOCK.to_owned();
            self.enter(work.task, WorkflowState::Exploring, &why, None).await?;
            return self.end(work.task, join(boundary.told(), why.clone()), Some(why));
        }
        let is_fine = if workflow.is_test_first() { green.is_green() } else { green.is_harmless() };
        if is_fine {
            let snapshot = self.ledger.keep(&boundary.snapshot.to_bytes()?)?;
            self.enter(work.task, WorkflowState::Reviewing, &seen(&green), Some(snapshot)).await?;
            return self.end(work.task, join(boundary.told(), format!("[GREEN] {}", seen(&green))), None);
        }
        let back = if workflow.is_test_first() { WorkflowState::CodeWriting } else { WorkflowState::Exploring };
        let why = join(format!("{GREEN_GUARD}: {}", seen(&green)), green.doubts.join("; "));
        self.enter(work.task, back, &seen(&green), None).await?;
        self.end(work.task, join(boundary.told(), why.clone()), Some(why))
    }

    async fn stall(&self, task: &Task, boundary: &Boundary, why: String) -> Result<PhaseEnd, Stop> {
        let workflow = self.workflow(task)?;
        self.ledger.record(WorkflowStalled { pid: task.pid, task: Some(task.id), state: workflow.state, why: why.clone() }).await?;
        self.end(task, join(boundary.told(), why.clone()), Some(why))
    }

    fn end(&self, task: &Task, came: String, stalled: Option<String>) -> Result<PhaseEnd, Stop> {
        let workflow = self.workflow(task)?;
        let told = self.ledger.redactor.text(&phase_prompt(&came, &workflow)).into_owned();
        Ok(PhaseEnd { told, state: workflow.state, stalled })
    }
}

/// Why a run is not what new tests should come to, if it is not. What failed before the task proves nothing.
fn not_red(base: &TestEvidence, red: &TestEvidence) -> Option<String> {
    if !red.is_red() {
        return Some(seen(red));
    }
    let is_new = match (base.outcome, red.outcome) {
        (TestOutcome::CompileError, TestOutcome::CompileError) => false,
        (_, TestOutcome::CompileError) => true,
        _ if red.failing.is_empty() => red.failed > base.failed,
        _ => red.failing.iter().any(|test| !base.failing.contains(test)),
    };
    (!is_new).then(|| format!("{}, and so it was before the task", seen(red)))
}

/// A run in one line.
pub(crate) fn seen(run: &TestEvidence) -> String {
    let tree: String = run.tree.chars().take(12).collect();
    let tests = match run.outcome {
        TestOutcome::Passed => format!("{} tests pass", run.passed),
        TestOutcome::Failed => {
            let named = if run.failing.is_empty() { String::new() } else { format!(": {}", run.failing.join(", ")) };
            format!("{} of {} tests fail{named}", run.failed, run.passed + run.failed)
        }
        TestOutcome::CompileError => "the tests do not compile, so none of them said anything".to_owned(),
        TestOutcome::NoTests => "no test ran".to_owned(),
        TestOutcome::Crashed => "the runner crashed, or contradicts itself".to_owned(),
        TestOutcome::TimedOut => "the tests took too long".to_owned(),
        TestOutcome::NotRun => "the tests were not run".to_owned(),
    };
    format!("{tests} ({}@{tree})", run.purpose.as_str())
}

fn join(first: String, second: String) -> String {
    [first, second].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}
