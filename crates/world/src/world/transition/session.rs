//! Sessions: plans asked for, judged and carried out, and what is learned from them.

use super::{CheckResult, Transition, ensure, in_state, task, task_mut};
use crate::event::{
    ContextAssessed, ContextSummarized, DelegationFinished, DelegationStarted, FutilityDetected, LessonForgotten, LessonLearned,
    LessonRecalled, LimitExceeded, PlanAccepted, PlanCriticized, PlanReceived, PlanRejected, PlanReplaced, PlannerRequested,
    SessionCheckpointed, SessionCreated, StepFinished, StepStarted,
};
use crate::{ActivePlan, ContextVerdict, Lesson, Session, StepState, StepStates, StepStatus, TaskId, TaskState, World, limits};
use std::collections::VecDeque;

fn session(world: &World, id: Option<TaskId>) -> Result<&Session, String> {
    let task = task(world, id)?;
    ensure(!task.state.ended(), || format!("{} has ended", task.id))?;
    task.session.as_deref().ok_or_else(|| format!("{} is no session", task.id))
}

fn session_mut(world: &mut World, id: Option<TaskId>) -> Option<&mut Session> {
    task_mut(world, id)?.session.as_deref_mut()
}

/// The iteration before the latest that is over: the latest is always told whole.
fn before_latest(session: &Session) -> u32 {
    session.iterations.back().map_or(0, |latest| latest.iteration.saturating_sub(1))
}

/// The plan with this number, if its steps may still begin or end.
fn plan(world: &World, id: Option<TaskId>, number: u32) -> Result<&ActivePlan, String> {
    let active = session(world, id)?.plan.as_ref().filter(|plan| plan.number == number);
    active.ok_or_else(|| format!("plan {number} is not in force"))
}

impl Transition for SessionCreated {
    fn check(&self, world: &World) -> CheckResult {
        in_state(world, self.task, "queued", |state| state == TaskState::Queued)?;
        ensure(task(world, self.task)?.session.is_none(), || "it is a session already".into())
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let session = Session {
            terms: (*self.terms).clone(),
            of: self.of,
            is_planning: true,
            iteration: 0,
            plan: None,
            steps_made: 0,
            iterations: VecDeque::new(),
            summary: None,
            findings: Vec::new(),
            delegate: None,
            futile: None,
            futile_at: 0,
            kept_until: 0,
            summed_until: 0,
            delegated_at: 0,
            originals: self.original.iter().cloned().collect(),
            forked: self.forked,
            worked_ms: 0,
        };
        if let Some(task) = task_mut(world, self.task) {
            task.session = Some(Box::new(session));
        }
    }
}

impl Transition for PlannerRequested {
    fn check(&self, world: &World) -> CheckResult {
        let now = session(world, self.task)?.iteration;
        ensure(self.iteration == now || self.iteration == now + 1, || format!("iteration {} does not follow {now}", self.iteration))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task) {
            session.iteration = self.iteration;
            session.is_planning = true;
        }
    }
}

impl Transition for PlanReceived {
    fn check(&self, world: &World) -> CheckResult {
        session(world, self.task).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task) {
            session.originals.extend(self.original.clone());
        }
    }
}

impl Transition for PlanCriticized {
    fn check(&self, world: &World) -> CheckResult {
        session(world, self.task).map(drop)
    }
}

impl Transition for PlanRejected {
    fn check(&self, world: &World) -> CheckResult {
        session(world, self.task).map(drop)
    }
}

impl Transition for PlanAccepted {
    fn check(&self, world: &World) -> CheckResult {
        let next = session(world, self.task)?.plan.as_ref().map_or(1, |plan| plan.number + 1);
        ensure(self.plan == next, || format!("plan {} is not the next, which is {next}", self.plan))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task) {
            session.is_planning = false;
            session.iteration = self.iteration;
            session.plan = Some(ActivePlan {
                number: self.plan,
                blob: self.blob.clone(),
                goal: self.goal.clone(),
                steps: self.steps,
                begun: StepStates::default(),
                replaced: None,
                original: self.original.clone(),
            });
            session.originals.extend(self.original.clone());
        }
    }
}

impl Transition for PlanReplaced {
    fn check(&self, world: &World) -> CheckResult {
        plan(world, self.task, self.plan).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(plan) = session_mut(world, self.task).and_then(|session| session.plan.as_mut()) {
            plan.replaced = Some(self.reason.clone());
        }
    }
}

impl Transition for StepStarted {
    fn check(&self, world: &World) -> CheckResult {
        let plan = plan(world, self.task, self.plan)?;
        ensure(plan.replaced.is_none(), || format!("plan {} is given up", self.plan))?;
        let begun = plan.begun.get(&self.step);
        ensure(begun.is_none_or(|step| !step.status.ended()), || format!("step {} has ended", self.step))?;
        let next = begun.map_or(1, |step| step.attempts + 1);
        ensure(self.attempt == next, || format!("attempt {} of step {} is not the next", self.attempt, self.step))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let plan = session_mut(world, self.task).and_then(|session| session.plan.as_mut());
        if let Some(plan) = plan.filter(|plan| plan.number == self.plan) {
            let step = StepState { tool: self.tool.clone(), status: StepStatus::Running, attempts: self.attempt, call: None, error: None };
            plan.begun.to_mut().insert(self.step.clone(), step);
        }
    }
}

impl Transition for StepFinished {
    fn check(&self, world: &World) -> CheckResult {
        let plan = plan(world, self.task, self.plan)?;
        ensure(self.status.ended(), || format!("step {} has no end", self.step))?;
        match plan.begun.get(&self.step) {
            Some(step) => ensure(!step.status.ended(), || format!("step {} has ended", self.step)),
            None => ensure(self.status == StepStatus::Skipped, || format!("step {} was not begun", self.step)),
        }
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let Some(session) = session_mut(world, self.task) else { return };
        let Some(plan) = session.plan.as_mut().filter(|plan| plan.number == self.plan) else { return };
        session.steps_made += u64::from(self.status != StepStatus::Skipped);
        let (status, attempts, call, error) = (self.status, self.attempts, self.call, self.error.clone());
        match plan.begun.to_mut().get_mut(&self.step) {
            Some(step) => *step = StepState { tool: std::mem::take(&mut step.tool), status, attempts, call, error },
            None => drop(plan.begun.to_mut().insert(self.step.clone(), StepState { tool: String::new(), status, attempts, call, error })),
        }
    }
}

impl Transition for SessionCheckpointed {
    fn check(&self, world: &World) -> CheckResult {
        session(world, self.task).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task) {
            session.iterations.push_back((*self.iteration).clone());
            if session.iterations.len() > limits::ITERATIONS_REMEMBERED {
                session.iterations.pop_front();
            }
        }
    }
}

impl Transition for LimitExceeded {
    fn check(&self, world: &World) -> CheckResult {
        session(world, self.task).map(drop)
    }
}

impl Transition for FutilityDetected {
    fn check(&self, world: &World) -> CheckResult {
        session(world, self.task).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task) {
            session.futile = Some(self.pattern.clone());
            session.futile_at = session.iteration;
        }
    }
}

impl Transition for ContextAssessed {
    fn check(&self, world: &World) -> CheckResult {
        session(world, self.task).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task).filter(|_| self.verdict == ContextVerdict::Checkpoint) {
            session.kept_until = before_latest(session);
        }
    }
}

impl Transition for ContextSummarized {
    fn check(&self, world: &World) -> CheckResult {
        session(world, self.task).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task) {
            session.summary = Some(self.blob.clone());
            session.summed_until = before_latest(session);
        }
    }
}

impl Transition for DelegationStarted {
    fn check(&self, world: &World) -> CheckResult {
        let parent = session(world, self.task)?;
        ensure(parent.of.is_none(), || "a delegated session delegates nothing".into())?;
        ensure(parent.delegate.is_none(), || "it has delegated already".into())?;
        let child = task(world, Some(self.child))?;
        ensure(child.session.as_ref().is_some_and(|session| session.of == self.task), || format!("{} is not its part", self.child))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task) {
            session.delegate = Some(self.child);
            session.delegated_at = session.iteration;
        }
    }
}

impl Transition for DelegationFinished {
    fn check(&self, world: &World) -> CheckResult {
        let delegate = session(world, self.task)?.delegate;
        ensure(delegate == Some(self.child), || format!("nothing is delegated to {}", self.child))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(session) = session_mut(world, self.task) {
            session.delegate = None;
            session.findings.push(self.findings.clone());
        }
    }
}

impl Transition for LessonLearned {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.lesson == world.next_lesson(), || format!("{} is not the next", self.lesson))?;
        ensure(world.lessons.len() < limits::LESSONS_MAX, || "one must be forgotten first".into())
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.lesson = world.last.lesson.max(self.lesson.0);
        let lesson = Lesson {
            summary: self.summary.clone(),
            ok: self.ok,
            text: self.text.clone(),
            tools: self.tools.clone(),
            task: self.task,
            learned_ms: at_ms,
            recalled: 0,
            recalled_ms: None,
        };
        world.lessons.insert(self.lesson, lesson);
    }
}

impl Transition for LessonRecalled {
    fn apply(&self, world: &mut World, at_ms: i64) {
        for lesson in &self.lessons {
            if let Some(lesson) = world.lessons.get_mut(lesson) {
                lesson.recalled += 1;
                lesson.recalled_ms = Some(at_ms);
            }
        }
    }
}

impl Transition for LessonForgotten {
    fn apply(&self, world: &mut World, _at_ms: i64) {
        for lesson in &self.lessons {
            world.lessons.remove(lesson);
        }
    }
}
