//! Has a plan made, judged and accepted, before any step of it begins.
//!
//! **Invariant.** A plan whose steps begin was looked at by the critics, or it is on record that they were off. What they found goes back to the planner three times at
//! most; then the session ends, on record.

use crate::catalog::RegistryCatalog;
use crate::course::{before_planning, model_findings};
use crate::planner::{PlannerFault, open_planner, plan_gone};
use crate::resume::PlanningPast;
use crate::work::SessionWork;
use crate::{FILE_PLANNER, Planner, SessionEnd, briefing, preflight};
use gate::MODEL_REQUEST;
use journal::Filter;
use ledger::event_of;
use serde_json::Value;
use std::borrow::Cow;
use tool::RunMode;
use workflow::discipline::{source_before_tests, test_steps_first};
use workflow::{CriticContext, Plan, criticize, read_response};
use world::event::{PlanAccepted, PlanCriticized, PlanReceived, PlanRejected, PlannerRequested};
use world::{Code, Event, Fault, FaultKind, PlanFinding, Remedy, RetryCause, Stop, WorkflowState, exact_answer, exact_plan};

/// How often what critics found goes back to the planner.
pub(crate) const ROUNDS_MAX: u32 = 3;

/// What came of planning.
pub(crate) enum Planned {
    Accepted,
    End(SessionEnd),
}

/// Gets from the planner a plan that may be carried out.
pub(crate) async fn make_plan(work: &SessionWork) -> Result<Planned, Stop> {
    let planner = open_planner(work)?;
    let mut past = PlanningPast::read(work)?;
    let (known, is_planning) = work.look(|_, session| (session.iteration, session.is_planning))?;
    // An asking that was cut short is made again; what was carried out is followed by the next.
    let iteration = if is_planning { known.max(1) } else { known + 1 };
    let max = work.terms.limits.max_iterations;
    if iteration > max {
        let (event, reason) = work.exceeded("max_iterations", u64::from(iteration - 1), u64::from(max));
        work.record(vec![event]).await?;
        return Ok(Planned::End(SessionEnd::Failed(reason)));
    }
    let mut round = if past.iteration == iteration { past.round } else { 0 };
    if past.unjudged.is_none() && !past.criticism.is_empty() && past.iteration == iteration {
        round += 1;
    }
    loop {
        let text = match past.unjudged.take() {
            Some((blob, original)) => text_of(work, &blob, original.as_deref())?,
            None => match ask(work, planner.as_ref(), &past, iteration, round).await? {
                Ok(text) => {
                    past.received += 1;
                    text
                }
                Err(end) => return Ok(Planned::End(end)),
            },
        };
        let rejected = match judge(work, &text, iteration, round).await? {
            None => return Ok(Planned::Accepted),
            Some(findings) => findings,
        };
        if round >= ROUNDS_MAX || !planner.has_more(past.received) {
            return Ok(Planned::End(SessionEnd::Failed(rejection(&rejected))));
        }
        past.criticism = rejected;
        round += 1;
    }
}

fn rejection(findings: &[PlanFinding]) -> String {
    let told = |finding: &PlanFinding| match finding.at.as_str() {
        "" => finding.message.clone(),
        at => format!("{at}: {}", finding.message),
    };
    let blocking: Vec<String> = findings.iter().filter(|finding| finding.blocks).map(told).collect();
    let more = blocking.len().saturating_sub(3);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("the plan was rejected: {}{more}", blocking.iter().take(3).cloned().collect::<Vec<_>>().join("; "))
}

/// What a planner said, in its exact words.
fn text_of(work: &SessionWork, blob: &str, original: Option<&str>) -> Result<String, Stop> {
    let ledger = work.host.ledger();
    let bytes = match original {
        Some(name) => ledger.exact(name)?.ok_or_else(plan_gone)?,
        None => ledger.blob(blob)?,
    };
    Ok(String::from_utf8(bytes).map_err(|error| Fault::new(FaultKind::Bug, "a kept plan is no text", error))?)
}

/// Asks the planner once, with both sides on record.
async fn ask(
    work: &SessionWork,
    planner: &dyn Planner,
    past: &PlanningPast,
    iteration: u32,
    round: u32,
) -> Result<Result<String, SessionEnd>, Stop> {
    before_planning(work, iteration).await?;
    let request = briefing::request(work, past, iteration, round).await?;
    let (pid, task, ledger) = (work.pid, Some(work.id), work.host.ledger());
    let prompt = planner.prompt(&request).map(|text| ledger.redactor.text(&text).into_owned());
    let blob = prompt.map(|text| ledger.keep(text.as_bytes())).transpose()?;
    let name = planner.label(&request).unwrap_or_else(|| work.terms.planner.clone());
    work.record(vec![PlannerRequested { pid, task, iteration, round, planner: name, blob }.into()]).await?;
    let planned = match work.time_left()? {
        None => planner.plan(&request).await,
        Some(left) => match tokio::time::timeout(left, planner.plan(&request)).await {
            Ok(planned) => planned,
            Err(_) => {
                let (event, reason) = work.exceeded_duration()?;
                work.record(vec![event]).await?;
                return Ok(Err(SessionEnd::Failed(reason)));
            }
        },
    };
    let text = match planned {
        Ok(text) => text,
        Err(PlannerFault::Failed(reason)) => return Ok(Err(SessionEnd::Failed(reason))),
        Err(PlannerFault::Asked(review)) => return Ok(Err(SessionEnd::Asked(review))),
        Err(PlannerFault::Stopped { reason, cause }) => return Ok(Err(SessionEnd::Stopped { reason, cause })),
        Err(PlannerFault::Stop(stop)) => return no_plan(work, stop).await.map(Err),
    };
    let KeptText { blob, original } = keep(work, exact_answer(work.id, iteration, round), &text, ledger.redactor.text(&text)).await?;
    let bytes = text.len() as u64;
    work.record(vec![PlanReceived { pid, task, iteration, round, blob, bytes, original }.into()]).await?;
    Ok(Ok(text))
}

/// What is kept of a text: what anybody may read, and where its exact words are if that lacks a secret.
struct KeptText {
    blob: String,
    original: Option<String>,
}

async fn keep(work: &SessionWork, name: String, text: &str, shown: Cow<'_, str>) -> Result<KeptText, Stop> {
    let ledger = work.host.ledger();
    let original = if shown == text { None } else { Some(ledger.keep_exact(name, text).await?) };
    Ok(KeptText { blob: ledger.keep(shown.as_bytes())?, original })
}

/// Keeps a plan that is carried out. Without its secrets it is still a plan, in which every step has its place.
async fn keep_plan(work: &SessionWork, number: u32, plan: &Plan) -> Result<KeptText, Stop> {
    let mut shown = plan.to_value();
    if let Some(steps) = shown.get_mut("steps").and_then(Value::as_array_mut) {
        let inputs = steps.iter_mut().filter_map(|step| step.get_mut("input"));
        inputs.for_each(|input| work.host.ledger().redactor.value(input));
    }
    work.host.ledger().redactor.strings(&mut shown);
    keep(work, exact_plan(work.id, number), &plan.to_json(), Cow::Owned(shown.to_string())).await
}

/// A planner that may not be asked any more: the session's own limit, or somebody else's.
async fn no_plan(work: &SessionWork, stop: Stop) -> Result<SessionEnd, Stop> {
    let Stop::Refused(refusal) = &stop else { return Err(stop) };
    if refusal.code != Code::Exhausted {
        return Err(stop);
    }
    let ((tokens, micros), limits) = (work.spent(), &work.terms.limits);
    // Whose budget it is says what would help; with an amount of money it is one of money.
    let own = match refused_remedy(work)? {
        Some(Remedy::LargerTaskBudget { micros: 1.., .. }) => limits.max_cost_micros.map(|max| ("max_cost_micros", micros, max)),
        Some(Remedy::LargerTaskBudget { .. }) => limits.max_tokens.map(|max| ("max_tokens", tokens, max)),
        _ => None,
    };
    match own {
        Some((limit, used, max)) => {
            let (event, _) = work.exceeded(limit, used, max);
            work.record(vec![event]).await?;
            Ok(SessionEnd::Failed(format!("its limit `{limit}` of {max} does not hold the next request: {}", refusal.reason)))
        }
        None => Ok(SessionEnd::Stopped { reason: refusal.reason.clone(), cause: RetryCause::Budget }),
    }
}

/// What would have helped the session's newest refused request to a model, as its record says.
fn refused_remedy(work: &SessionWork) -> Result<Option<Remedy>, Stop> {
    let kinds = vec!["call.refused".to_owned()];
    let last = Filter { task: Some(work.id.to_string()), kinds, reverse: true, limit: Some(1), ..Filter::default() };
    let Some(record) = work.host.ledger().read(&last)?.pop() else { return Ok(None) };
    Ok(match event_of(&record)? {
        Event::CallRefused(refused) if refused.tool == MODEL_REQUEST => refused.remedy.map(|remedy| *remedy),
        _ => None,
    })
}

/// Reads what the planner said and has critics look at it. Gives what they found where the plan does not pass; else it is accepted, on record.
async fn judge(work: &SessionWork, text: &str, iteration: u32, round: u32) -> Result<Option<Vec<PlanFinding>>, Stop> {
    let (pid, task) = (work.pid, Some(work.id));
    // A plan file is the operator's, and may be longer than any planner's answer.
    let document = if work.terms.planner == FILE_PLANNER { Ok(text) } else { read_response(text) };
    let plan = match document.and_then(|document| Plan::parse(document, work.terms.agentic)) {
        Ok(plan) => plan,
        Err(findings) => {
            work.record(vec![PlanRejected { pid, task, iteration, round, findings: findings.clone() }.into()]).await?;
            return Ok(Some(findings));
        }
    };
    let mut findings = if work.terms.critics { look_at(work, &plan).await? } else { Vec::new() };
    let plan = tests_first(work, plan, &mut findings)?;
    let is_blocked = findings.iter().any(|finding| finding.blocks);
    let off = !work.terms.critics;
    let most = Some(Box::new(preflight::most(work.host.tools(), &plan, &work.terms.limits, work.spent())));
    let mut events: Vec<Event> = vec![PlanCriticized { pid, task, iteration, round, findings: findings.clone(), off, most }.into()];
    if is_blocked {
        events.push(PlanRejected { pid, task, iteration, round, findings: findings.clone() }.into());
        work.record(events).await?;
        return Ok(Some(findings));
    }
    let number = work.look(|_, session| session.plan.as_ref().map_or(1, |plan| plan.number + 1))?;
    let KeptText { blob, original } = keep_plan(work, number, &plan).await?;
    let steps = u32::try_from(plan.steps.len()).unwrap_or(u32::MAX);
    events.push(PlanAccepted { pid, task, plan: number, iteration, blob, goal: plan.goal, steps, original }.into());
    work.record(events).await?;
    Ok(None)
}

/// In strict mode a plan's steps that write source depend on those that write tests, whoever looks at plans.
fn tests_first(work: &SessionWork, plan: Plan, findings: &mut Vec<PlanFinding>) -> Result<Plan, Stop> {
    let task = work.task()?;
    // What is not done in earnest writes nothing.
    let is_held = |workflow: &&world::Workflow| workflow.is_test_first() && work.run_mode() == RunMode::Live;
    let Some(workflow) = task.workflow.as_deref().filter(is_held) else { return Ok(plan) };
    let project = work.host.gate().policies.in_force(work.zone)?;
    if workflow.state == WorkflowState::Planning {
        findings.extend(source_before_tests(&plan, &project.tests));
    }
    Ok(test_steps_first(plan, workflow.state, &project.tests))
}

/// All that the critics have to say.
async fn look_at(work: &SessionWork, plan: &Plan) -> Result<Vec<PlanFinding>, Stop> {
    let mut findings = criticized(work, plan)?;
    findings.extend(preflight::marked(plan));
    if findings.iter().any(|finding| finding.blocks) {
        return Ok(findings);
    }
    findings.extend(preflight::look_ahead(work, plan).await?);
    if work.terms.model_critic && !findings.iter().any(|finding| finding.blocks) {
        findings.extend(model_findings(work, plan).await?);
    }
    Ok(findings)
}

/// What the critics say that need nobody else.
fn criticized(work: &SessionWork, plan: &Plan) -> Result<Vec<PlanFinding>, Stop> {
    let catalog = RegistryCatalog(work.host.tools().clone());
    let made = work.look(|_, session| session.steps_made)?;
    let context = CriticContext {
        catalog: &catalog,
        constraints: &work.terms.constraints,
        profile: &work.terms.profile,
        steps_left: work.terms.limits.max_steps.saturating_sub(made),
        steps_max: work.terms.agentic.then_some(workflow::AGENTIC_STEPS_MAX),
    };
    Ok(criticize(plan, &context))
}
