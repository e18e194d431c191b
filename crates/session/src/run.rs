//! The loop of a session: a plan is made and judged, carried out, and looked at.
//!
//! **Invariant.** Where it stands follows from the journal alone: whoever takes it up after a crash goes on with exactly what is not on record.

use crate::carry_out::{PlanEnd, carry_out};
use crate::course::{self, Course, after_plan, at_end, done};
use crate::outputs::{forget_earlier, read_plan};
use crate::planner::open_planner;
use crate::planner_spec::PlannerSpec;
use crate::planning::{Planned, make_plan};
use crate::resume::PlanningPast;
use crate::work::SessionWork;
use crate::{PREEMPTED, SessionEnd, SessionHost};
use std::sync::Arc;
use workflow::FailurePolicy;
use world::{ActivePlan, Event, Session, StepStatus, Stop, Task, TaskId};

/// Works on a session until it ends, must wait for a person or cannot go on.
pub async fn run(host: Arc<dyn SessionHost>, task: TaskId) -> Result<SessionEnd, Stop> {
    let work = SessionWork::of(host, task)?;
    resume_paused(&work).await?;
    if work.look(|task, _| task.episodes > 1)? {
        forget_earlier(&work)?;
    }
    let end = go_through(&work).await?;
    if matches!(end, SessionEnd::Done(_) | SessionEnd::Failed(_)) {
        at_end(&work, &end).await?;
    }
    Ok(end)
}

/// A room that was frozen for somebody of higher priority goes on: nobody of then is there any more. What a person paused stays so.
async fn resume_paused(work: &SessionWork) -> Result<(), Stop> {
    if !work.look(|task, _| task.workspace.as_ref().is_some_and(|workspace| workspace.paused))? {
        return Ok(());
    }
    let last = work.host.ledger().events(work.id, &["workspace.paused"])?.pop();
    match last {
        Some(Event::WorkspacePaused(paused)) if paused.by == PREEMPTED => work.host.resume_room(work.id).await,
        _ => Ok(()),
    }
}

/// Where a session stands.
enum Stage {
    Planning,
    /// A plan is in force, and its outcome is not on record.
    Plan(Box<ActivePlan>),
    /// A plan is over.
    Over,
}

fn stage(session: &Session) -> Stage {
    match &session.plan {
        _ if session.is_planning => Stage::Planning,
        None => Stage::Planning,
        Some(_) if session.iterations.back().is_some_and(|record| record.iteration == session.iteration) => Stage::Over,
        Some(plan) => Stage::Plan(Box::new(plan.clone())),
    }
}

async fn go_through(work: &SessionWork) -> Result<SessionEnd, Stop> {
    let mut is_to_plan = false;
    loop {
        if is_to_plan {
            is_to_plan = false;
            if let Planned::End(end) = make_plan(work).await? {
                return Ok(end);
            }
        }
        match work.look(|_, session| stage(session))? {
            Stage::Planning => is_to_plan = true,
            Stage::Plan(_) if work.terms.plan_only => return Ok(SessionEnd::Done(course::summary(&work.task()?))),
            Stage::Plan(plan) => match carry_out(work, &plan).await? {
                PlanEnd::Over => {}
                PlanEnd::Asked(review) => return Ok(SessionEnd::Asked(review)),
                PlanEnd::Exceeded(reason) => return Ok(SessionEnd::Failed(reason)),
            },
            Stage::Over => match next(work).await? {
                Course::PlanAgain => is_to_plan = true,
                Course::End(end) => return Ok(end),
            },
        }
    }
}

/// What follows a plan that is over.
async fn next(work: &SessionWork) -> Result<Course, Stop> {
    let task = work.task()?;
    let (failure, plans) = failure(work, &task)?;
    if work.terms.agentic {
        return after_plan(work, &task).await;
    }
    Ok(match failure {
        Some(PlanFailure { wants_another: true, .. }) if may_replan(work, plans)? => Course::PlanAgain,
        Some(PlanFailure { reason, .. }) => Course::End(SessionEnd::Failed(reason)),
        None => Course::End(done(work, &task)?),
    })
}

/// A planner is asked once more with what failed, and then what fails is the end. A file has as many plans as stand in it.
fn may_replan(work: &SessionWork, plans: u32) -> Result<bool, Stop> {
    Ok(match PlannerSpec::parse(&work.terms.planner)? {
        PlannerSpec::File => open_planner(work)?.has_more(PlanningPast::read(work)?.received),
        PlannerSpec::Model(_) | PlannerSpec::Router(_) | PlannerSpec::Brain(_) => plans <= 1,
    })
}

struct PlanFailure {
    reason: String,
    wants_another: bool,
}

/// Why the newest plan failed, if it did, and how many there were.
fn failure(work: &SessionWork, task: &Task) -> Result<(Option<PlanFailure>, u32), Stop> {
    let Some(active) = task.session.as_deref().and_then(|session| session.plan.as_ref()) else { return Ok((None, 0)) };
    if let Some(reason) = &active.replaced {
        return Ok((Some(PlanFailure { reason: reason.clone(), wants_another: true }), active.number));
    }
    let plan = read_plan(work, active)?.plan;
    let failed = plan.steps.iter().filter(|step| step.failure_policy != FailurePolicy::Continue).find_map(|step| {
        let state = active.begun.get(&step.step_id).filter(|state| state.status == StepStatus::Failed)?;
        let why = state.error.as_deref().map_or("", |error| error.message.as_str());
        Some(PlanFailure { reason: format!("step {} failed: {why}", step.step_id), wants_another: false })
    });
    Ok((failed, active.number))
}
