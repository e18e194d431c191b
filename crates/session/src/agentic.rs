//! The agentic loop around a plan: is there room to plan on, and is going on of any use?
//!
//! **Invariant.** What is done about a full context and about work that goes in circles is on record before it is done, and done again from the record after a crash.

use crate::asking::ask_model;
use crate::briefing::{context_budget, request};
use crate::course::Course;
use crate::model_planner::open_model;
use crate::planner::{PlannerFault, open_planner};
use crate::planner_spec::PlannerSpec;
use crate::resume::PlanningPast;
use crate::work::SessionWork;
use crate::{SessionEnd, delegate, memory};
use brain::SingleQuestion;
use brain::model::Purpose;
use gate::CallEnd;
use serde_json::json;
use workflow::{
    ContextUse, FutilityThresholds, PlannerPrompt, PlanningRequest, assess_context, detect_futility, listed_summary, planner_prompt,
    summary_prompt,
};
use world::event::{ContextAssessed, ContextSummarized, FutilityDetected};
use world::{ContextVerdict, IterationRecord, Session, Stop};

/// Bytes of a summary, and tokens that it may need.
const SUMMARY_BYTES_MAX: usize = 8 * 1024;
const SUMMARY_TOKENS: u64 = 1_500;

/// Before the planner is asked for the plan of an iteration: lessons are recalled, a delegation that was left open is finished, and the context is looked at.
pub(crate) async fn prepare(work: &SessionWork, iteration: u32) -> Result<(), Stop> {
    let known = work.look(|_, session| session.iteration)?;
    if known == 0 {
        memory::recall(work).await?;
    }
    delegate::finish_open(work).await?;
    // In a later round of the same iteration nothing new is to be told.
    if !work.terms.agentic || known >= iteration || work.look(|_, session| session.iterations.is_empty())? {
        return Ok(());
    }
    let planner = open_planner(work)?;
    let request = request(work, &PlanningPast::default(), iteration, 0).await?;
    let (used, budget) = (planner_prompt(&request).tokens(), context_budget(work, planner.as_ref()));
    let session = work.look(|_, session| session.clone())?;
    let context = ContextUse {
        used,
        budget,
        may_delegate: delegate::is_possible(work, &session),
        may_keep: latest(&session).is_some_and(|latest| latest > session.kept_until.max(session.summed_until) + 1),
        may_summarize: latest(&session).is_some_and(|latest| latest > session.summed_until + 1),
    };
    let verdict = assess_context(context);
    let (pid, task) = (work.pid, Some(work.id));
    // INVARIANT: `checkpoint` acts by its record: from here on what came before the latest iteration is told in a line each.
    work.record(vec![ContextAssessed { pid, task, verdict, used, budget }.into()]).await?;
    match verdict {
        ContextVerdict::Ok | ContextVerdict::Checkpoint => Ok(()),
        ContextVerdict::Delegate => delegate::run(work, &request).await,
        ContextVerdict::Summarize => summarize(work, &session, &request).await,
    }
}

fn latest(session: &Session) -> Option<u32> {
    session.iterations.back().map(|record| record.iteration)
}

/// Has what came before the latest iteration summed up. Where no model does it, a bare list stands in: a model that won't sum up must not end the work.
async fn summarize(work: &SessionWork, session: &Session, request: &PlanningRequest) -> Result<(), Stop> {
    let old = |record: &&IterationRecord| record.iteration > session.summed_until && Some(record.iteration) != latest(session);
    let old: Vec<IterationRecord> = session.iterations.iter().filter(old).cloned().collect();
    let mut summary = match summed_up(work, request, &old).await {
        Ok(summary) => summary,
        Err(PlannerFault::Stop(stop)) => return Err(stop),
        Err(_) => listed_summary(request.summary.as_deref(), &old),
    };
    if summary.trim().is_empty() {
        summary = listed_summary(request.summary.as_deref(), &old);
    }
    let ledger = work.host.ledger();
    summary = ledger.redactor.text(&summary).into_owned();
    summary.truncate(summary.floor_char_boundary(SUMMARY_BYTES_MAX));
    let (pid, task, bytes) = (work.pid, Some(work.id), summary.len() as u64);
    let blob = ledger.keep(summary.as_bytes())?;
    Ok(work.record(vec![ContextSummarized { pid, task, blob, bytes }.into()]).await?)
}

async fn summed_up(work: &SessionWork, request: &PlanningRequest, old: &[IterationRecord]) -> Result<String, PlannerFault> {
    let spec = PlannerSpec::parse(&work.terms.planner).map_err(|refusal| PlannerFault::Failed(refusal.reason))?;
    // Without a model there is nobody to ask, and that is no reason to stop.
    let model = open_model(work, spec.model()).map_err(|stop| PlannerFault::Failed(stop.to_string()))?;
    let PlannerPrompt { system, user } = summary_prompt(request, old);
    let question = SingleQuestion {
        purpose: Purpose::Summary,
        system: &system,
        user: &user,
        tools: &[],
        output_tokens: SUMMARY_TOKENS,
        answer_bytes_max: SUMMARY_BYTES_MAX,
    };
    Ok(ask_model(work, &*model, &question).await?.text)
}

/// After a plan of an agentic session is over.
pub(crate) async fn after_iteration(work: &SessionWork) -> Result<Course, Stop> {
    let session = work.look(|_, session| session.clone())?;
    if session.futile.is_none() || session.futile_at != session.iteration {
        let news: Vec<IterationRecord> = session.iterations.iter().filter(|record| record.iteration > session.futile_at).cloned().collect();
        let Some(futility) = detect_futility(&news, &FutilityThresholds::default()) else { return Ok(Course::PlanAgain) };
        let (pattern, reason) = (futility.pattern.as_str().to_owned(), work.host.ledger().redactor.text(&futility.reason).into_owned());
        work.record(vec![FutilityDetected { pid: work.pid, task: Some(work.id), pattern, reason }.into()]).await?;
    }
    ask_to_go_on(work, session.iteration).await
}

/// Asks a person whether a session that goes in circles shall go on. Where nobody is there, it ends with what it has.
async fn ask_to_go_on(work: &SessionWork, iteration: u32) -> Result<Course, Stop> {
    let reason = why_futile(work)?;
    if work.terms.unattended {
        return Ok(Course::End(SessionEnd::Failed(format!("going on was of no use: {reason}"))));
    }
    let question = format!("Iteration {iteration}: going on seems to be of no use ({reason}). Shall it go on?");
    let outcome = work.host.ask_person(&work.task()?, json!({ "question": question })).await?;
    Ok(match outcome.end {
        CallEnd::Done { .. } | CallEnd::CallerExecutes => Course::PlanAgain,
        CallEnd::Pending(world::Refusal { review: Some(review), .. }) => Course::End(SessionEnd::Asked(review)),
        CallEnd::Pending(refusal) | CallEnd::Refused(refusal) => {
            Course::End(SessionEnd::Failed(format!("going on was of no use: {reason} ({})", refusal.reason)))
        }
    })
}

/// What was found last, as it is on record.
fn why_futile(work: &SessionWork) -> Result<String, Stop> {
    let last = work.host.ledger().events(work.id, &["futility.detected"])?.pop();
    Ok(match last {
        Some(world::Event::FutilityDetected(found)) => found.reason,
        _ => String::new(),
    })
}
