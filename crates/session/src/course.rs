//! What a session does next when a plan is over, and what is done before each asking of its planner.

use crate::work::SessionWork;
use crate::{SessionEnd, agentic, memory, model_critic, success};
use workflow::Plan;
use world::{PlanFinding, StepStatus, Stop, Task};

/// What comes after a plan that is over and whose outcome is on record.
pub(crate) enum Course {
    PlanAgain,
    End(SessionEnd),
}

/// Before each asking of the planner.
pub(crate) async fn before_planning(work: &SessionWork, iteration: u32) -> Result<(), Stop> {
    agentic::prepare(work, iteration).await
}

/// What a model has against a plan, where the session's terms want one to look.
pub(crate) async fn model_findings(work: &SessionWork, plan: &Plan) -> Result<Vec<PlanFinding>, Stop> {
    model_critic::judge(work, plan).await
}

/// After each plan of an agentic session.
pub(crate) async fn after_plan(work: &SessionWork, task: &Task) -> Result<Course, Stop> {
    let last = task.session.as_deref().and_then(|session| session.plan.as_ref());
    if last.is_some_and(|plan| plan.steps == 0) {
        return Ok(Course::End(done(work, task)?));
    }
    agentic::after_iteration(work).await
}

/// The end of a session whose plans are done: a good one, if what its task wants holds.
pub(crate) fn done(work: &SessionWork, task: &Task) -> Result<SessionEnd, Stop> {
    Ok(match success::unmet(work)? {
        None => SessionEnd::Done(summary(task)),
        Some(why) => SessionEnd::Failed(format!("its plans are done, and what its task wants does not hold: {why}")),
    })
}

/// At the end of a session, whatever end that is; what it taught is kept.
pub(crate) async fn at_end(work: &SessionWork, end: &SessionEnd) -> Result<(), Stop> {
    memory::learn(work, end).await
}

/// What a session that ended well says of itself.
pub(crate) fn summary(task: &Task) -> String {
    let Some(session) = task.session.as_deref() else { return String::new() };
    let goal = session.plan.as_ref().map(|plan| plan.goal.as_str()).unwrap_or_default();
    let steps = |status: StepStatus| session.plan.iter().flat_map(|plan| plan.begun.values()).filter(|step| step.status == status).count();
    let (failed, skipped) = (steps(StepStatus::Failed), steps(StepStatus::Skipped));
    let word = if session.steps_made == 1 { "step" } else { "steps" };
    let mut told = format!("{goal} ({} {word}", session.steps_made);
    if failed > 0 {
        told.push_str(&format!(", {failed} failed"));
    }
    if skipped > 0 {
        told.push_str(&format!(", {skipped} skipped"));
    }
    told + ")"
}
