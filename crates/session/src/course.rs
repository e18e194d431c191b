//! What a session does next when a plan is over, and what its planner is told before each asking.

use crate::{SessionEnd, SessionHost};
use std::sync::Arc;
use workflow::{Plan, RecalledLesson};
use world::{PlanFinding, StepStatus, Stop, Task};

/// What the planner is told beside the task and what came of earlier plans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Briefing {
    /// What stands for the findings before those that are remembered.
    pub summary: Option<String>,
    /// Iterations up to this one are told in one line each.
    pub kept_until: u32,
    /// What older steps gave that fits.
    pub remembered: Vec<String>,
    pub lessons: Vec<RecalledLesson>,
}

/// What comes after a plan that is over and whose outcome is on record.
pub(crate) enum Course {
    PlanAgain,
    End(SessionEnd),
}

/// Before each asking of the planner.
pub(crate) async fn before_planning(_host: &Arc<dyn SessionHost>, _task: &Task, _iteration: u32) -> Result<Briefing, Stop> {
    Ok(Briefing::default())
}

/// What a model has against a plan, where the session's terms want one to look.
pub(crate) async fn model_findings(_host: &Arc<dyn SessionHost>, _task: &Task, _plan: &Plan) -> Result<Vec<PlanFinding>, Stop> {
    Ok(Vec::new())
}

/// After each plan of an agentic session; `failure` says why the plan failed, if it did.
pub(crate) async fn after_plan(_host: &Arc<dyn SessionHost>, task: &Task, _failure: Option<&str>) -> Result<Course, Stop> {
    let last = task.session.as_deref().and_then(|session| session.plan.as_ref());
    if last.is_some_and(|plan| plan.steps == 0) {
        return Ok(Course::End(SessionEnd::Done(summary(task))));
    }
    Ok(Course::PlanAgain)
}

/// At the end of a session, whatever end that is; what it taught is kept.
pub(crate) async fn at_end(_host: &Arc<dyn SessionHost>, _task: &Task, _end: &SessionEnd) -> Result<(), Stop> {
    Ok(())
}

/// What a session that ended well says of itself.
pub(crate) fn summary(task: &Task) -> String {
    let Some(session) = task.session.as_deref() else { return String::new() };
    let goal = session.plan.as_ref().map(|plan| plan.goal.as_str()).unwrap_or_default();
    let steps = |status: StepStatus| session.plan.iter().flat_map(|plan| plan.begun.values()).filter(|step| step.status == status).count();
    let (failed, skipped) = (steps(StepStatus::Failed), steps(StepStatus::Skipped));
    let mut told = format!("{goal} ({} steps", session.steps_made);
    if failed > 0 {
        told.push_str(&format!(", {failed} failed"));
    }
    if skipped > 0 {
        told.push_str(&format!(", {skipped} skipped"));
    }
    told + ")"
}
