//! A part of the work is done by a session of its own: a child process that only reads, with a share of what is left.
//!
//! **Invariant.** A part delegates nothing. Its rights are those of the session it is part of, or fewer; what it finds is told to that session's planner.

use crate::NewSession;
use crate::planner_spec::PlannerSpec;
use crate::work::SessionWork;
use workflow::{PlanningRequest, clip_output, delegated_share};
use world::event::{BudgetSet, DelegationFinished};
use world::{Budget, PlanConstraints, Session, SessionLimits, SessionTerms, Stop, Task, TaskId, TaskState};

/// Tokens of which a part gets its share, where the session has no limit of them.
const TOKENS_UNLIMITED: u64 = 200_000;
/// Iterations of which it gets its share, at least one.
const ITERATIONS_MIN: u32 = 2;
/// Bytes of what a part is told about what was done before.
const TOLD_BYTES_MAX: usize = 4 * 1024;
/// Who ends a part that waits for a person.
const ENDER: &str = "session";

/// Whether a part of the work can be given away now: it is no part itself, there is something left to give, and none was since the iteration before the latest.
pub(crate) fn is_possible(work: &SessionWork, session: &Session) -> bool {
    let has_planner = PlannerSpec::parse(&work.terms.planner).is_ok_and(|spec| spec != PlannerSpec::File);
    let share = share_of(work, session);
    let is_rested = session.delegated_at == 0 || session.iteration > session.delegated_at + 1;
    has_planner && session.of.is_none() && session.delegate.is_none() && is_rested && share.max_steps > 0 && share.max_tokens != Some(0)
}

/// What a part may use: 30 % of what is left.
fn share_of(work: &SessionWork, session: &Session) -> SessionLimits {
    let limits = &work.terms.limits;
    let (tokens, micros) = work.spent();
    let left = |max: Option<u64>, used: u64| max.map(|max| delegated_share(max.saturating_sub(used)));
    SessionLimits {
        max_steps: delegated_share(limits.max_steps.saturating_sub(session.steps_made)),
        max_iterations: (delegated_share(u64::from(limits.max_iterations.saturating_sub(session.iteration))) as u32).max(ITERATIONS_MIN),
        max_duration_ms: work.time_left().ok().flatten().map(|left| delegated_share(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))),
        max_cost_micros: left(limits.max_cost_micros, micros),
        max_tokens: Some(left(limits.max_tokens, tokens).unwrap_or_else(|| delegated_share(TOKENS_UNLIMITED))),
    }
}

/// Starts the part, waits for it and records what it found. That it began is on record with its first record.
pub(crate) async fn run(work: &SessionWork, request: &PlanningRequest) -> Result<(), Stop> {
    let session = work.look(|_, session| session.clone())?;
    let limits = share_of(work, &session);
    work.host.start_session(part(work, request, limits)?).await?;
    finish_open(work).await
}

/// Waits for the part that is open, if there is one, and records what it found.
pub(crate) async fn finish_open(work: &SessionWork) -> Result<(), Stop> {
    let Some(child) = work.look(|_, session| session.delegate)? else { return Ok(()) };
    let mut task = work.host.settled(child).await?;
    if !task.state.ended() {
        // Nobody is asked for a part, and what stopped it stops it again.
        work.host.cancel_task(child, ENDER).await?;
        task = work.host.ledger().task(child)?;
    }
    let ok = task.state == TaskState::Done;
    let findings = work.host.ledger().redactor.text(&found(&task)).into_owned();
    let (pid, id) = (work.pid, Some(work.id));
    let mut events = vec![DelegationFinished { pid, task: id, child, ok, findings }.into()];
    events.extend(less(work, child)?.map(|budget| BudgetSet { pid, task: id, budget: Some(budget), by: ENDER.to_owned() }.into()));
    Ok(work.record(events).await?)
}

/// What the session may use itself, once a part has used something of it.
fn less(work: &SessionWork, child: TaskId) -> Result<Option<Budget>, Stop> {
    let Some(mut budget) = work.look(|task, _| task.budget.clone())? else { return Ok(None) };
    let used = work.host.ledger().look(|world| world.usage_by_task().remove(&child)).unwrap_or_default().totals;
    budget.micros = budget.micros.map(|micros| micros.saturating_sub(used.micros));
    for cap in budget.tokens.values_mut() {
        *cap = cap.saturating_sub(used.tokens());
    }
    Ok((used.micros > 0 || used.tokens() > 0).then_some(budget))
}

/// What a part came to: its last word, and what its steps gave.
fn found(task: &Task) -> String {
    let state = if task.state == TaskState::Done { "It is done" } else { "It did not come to its end" };
    let mut lines = vec![format!("{state}: {}", task.summary.as_deref().unwrap_or("it said nothing"))];
    let iterations = task.session.iter().flat_map(|session| &session.iterations);
    for step in iterations.flat_map(|record| &record.findings) {
        let start = step.summary.floor_char_boundary(500);
        lines.push(format!("- {} ({}) {}: {}", step.title, step.tool, step.status.as_str(), &step.summary[..start]));
    }
    clip_output(&lines.join("\n"))
}

/// The session that does the part: it only reads, and is told what was done before.
fn part(work: &SessionWork, request: &PlanningRequest, limits: SessionLimits) -> Result<NewSession, Stop> {
    let read_only: Vec<String> = request.tools.iter().filter(|tool| tool.read_only).map(|tool| tool.name.clone()).collect();
    let constraints = PlanConstraints { tool_allowlist: read_only, success_criteria: Vec::new(), ..work.terms.constraints.clone() };
    let terms = SessionTerms { agentic: true, limits, constraints, memory: false, unattended: true, ..(*work.terms).clone() };
    let mut told: String =
        request.iterations.iter().map(|record| format!("- {} ({} steps succeeded)\n", record.goal, record.succeeded)).collect();
    told.truncate(told.floor_char_boundary(TOLD_BYTES_MAX));
    let text = format!(
        "Look into the next part of this task, without changing anything, and say in the goal of your last plan what you found out that helps with it. The task: {}\nDone so far:\n{told}",
        request.text
    );
    let path = work.host.ledger().project_of(work.zone)?;
    Ok(NewSession { of: Some(work.id), ..NewSession::new(path, text, terms) })
}
