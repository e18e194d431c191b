//! What the operator does with sessions, and how they are shown.

use crate::plan::plan_view;
use crate::records;
use crate::responder::Responder;
use crate::rpc_error::{fault_error, rpc_error};
use crate::task::{added, continued};
use crate::view::{self, TaskExtras};
use kernel::{Kernel, NewSession, Reexecution};
use report::{SessionReport, calls_settled_until};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wire::method::journal::{FindingView, RecordFilter};
use wire::method::memory::LessonView;
use wire::method::session::{
    ContextView, PlanReview, ReexecutedView, SessionForkParams, SessionListParams, SessionListResult, SessionReplayParams,
    SessionReplayResult, SessionRow, SessionShowParams, SessionStartParams, SessionView, SessionWatchParams, StepCounts,
};
use wire::method::task::{TaskAddResult, TaskContinueResult, TaskView};
use wire::{ErrorCode, RpcError};
use world::{CallId, Code, Event, Refusal, Session, SessionMode, StepStatus, Task, TaskId, TaskState, World};

pub(crate) async fn start(kernel: &Kernel, params: SessionStartParams) -> Result<TaskAddResult, RpcError> {
    let SessionStartParams { path, text, terms, plan, record, tags, discipline } = params;
    let new = NewSession { plan, record, tags, discipline, ..NewSession::new(path.into(), text, terms) };
    Ok(added(kernel.add_session(new).await.map_err(rpc_error)?))
}

pub(crate) async fn list(kernel: &Kernel, params: &SessionListParams) -> Result<SessionListResult, RpcError> {
    let only = match &params.path {
        Some(path) => Some(view::zone_path(kernel, path).await?),
        None => None,
    };
    let known = TaskExtras::of(kernel);
    let mut sessions: Vec<SessionRow> = kernel.ledger.look(|world| {
        let zone = only.as_ref().and_then(|path| world.zone_at(path).map(|zone| zone.id));
        let is_meant = |task: &&Task| only.is_none() || Some(task.zone) == zone;
        let row = |task: &Task| task.session.as_deref().map(|session| session_row(&known, world, task, session));
        world.tasks.values().filter(is_meant).filter_map(row).collect()
    });
    sessions.sort_by_key(|row| (row.ended_ms.is_some(), std::cmp::Reverse(row.task)));
    Ok(SessionListResult { sessions })
}

fn session_row(known: &TaskExtras, world: &World, task: &Task, session: &Session) -> SessionRow {
    let view = view::task_view(known, world, task);
    SessionRow {
        task: task.id,
        text: view.prompt,
        status: session.status(task.state),
        zone: task.zone,
        branch: view.branch,
        agentic: session.terms.agentic,
        mode: session.terms.mode,
        planner: session.terms.planner.clone(),
        priority: session.terms.priority,
        queued_ms: task.queued_ms,
        ended_ms: task.ended_ms,
        iteration: session.iteration,
        steps: counts(session),
        review: view.review,
        usage: view.usage,
        of: session.of,
    }
}

fn counts(session: &Session) -> StepCounts {
    let Some(plan) = &session.plan else { return StepCounts::default() };
    let of = |status: StepStatus| plan.begun.values().filter(|step| step.status == status).count() as u64;
    StepCounts {
        total: u64::from(plan.steps),
        running: of(StepStatus::Running),
        succeeded: of(StepStatus::Succeeded),
        failed: of(StepStatus::Failed),
        skipped: of(StepStatus::Skipped),
    }
}

fn session_of(kernel: &Kernel, id: TaskId) -> Result<(Task, Session), RpcError> {
    let task = kernel.ledger.task(id).map_err(rpc_error)?;
    match task.session.as_deref().cloned() {
        Some(session) => Ok((task, session)),
        None => Err(RpcError::new(ErrorCode::WrongState, format!("{id} is no session: a brain does it, and no plan"))
            .fix(format!("look at it with `skep status {id}`"))),
    }
}

pub(crate) fn show(kernel: &Kernel, params: &SessionShowParams) -> Result<SessionView, RpcError> {
    // Before the world is looked at: what is recorded in between is told twice rather than not at all.
    let seq = kernel.ledger.journal().head().seq;
    let (task, session) = session_of(kernel, params.task)?;
    let mut shown = SessionView {
        task: view::task(kernel, task.id)?,
        status: session.status(task.state),
        terms: session.terms.clone(),
        seq,
        last_seq: 0,
        until_ms: None,
        of: session.of,
        iteration: session.iteration,
        plan_number: session.plan.as_ref().map_or(0, |plan| plan.number),
        steps: counts(&session),
        steps_made: session.steps_made,
        plan: None,
        plan_replaced: session.plan.as_ref().and_then(|plan| plan.replaced.clone()),
        reviews_of_plans: Vec::new(),
        iterations: Vec::new(),
        lessons: Vec::new(),
        delegate: session.delegate,
        delegated: Vec::new(),
        futile: session.futile.clone(),
        context: None,
        limits_reached: Vec::new(),
    };
    if !params.brief {
        let until = params.until_seq.map(|until| time_of(kernel, task.id, until, seq).map(|at_ms| (until, at_ms))).transpose()?;
        let report = SessionReport::read(&kernel.ledger, task.id, params.until_seq).map_err(rpc_error)?;
        fill(kernel, &mut shown, report, until)?;
    }
    // After the world was looked at: whoever was told this record was told all that the world says.
    let newest = journal::Filter { task: Some(task.id.to_string()), limit: Some(1), reverse: true, ..journal::Filter::default() };
    shown.last_seq = kernel.ledger.read(&newest).map_err(fault_error)?.first().map_or(0, |record| record.seq);
    Ok(shown)
}

/// When a record was written, if the session had begun by then.
fn time_of(kernel: &Kernel, id: TaskId, until: u64, head: u64) -> Result<i64, RpcError> {
    let of_task = journal::Filter { task: Some(id.to_string()), limit: Some(1), ..journal::Filter::default() };
    let first = kernel.ledger.read(&of_task).map_err(fault_error)?.first().map_or(0, |record| record.seq);
    if !(first..=head).contains(&until) {
        return Err(RpcError::new(ErrorCode::BadInput, format!("nothing can be told of {id} as it was after record {until}"))
            .why(format!("{id} began with record {first}, and the newest record is {head}"))
            .fix(format!("name a record from {first} to {head}")));
    }
    let at = journal::Filter { after_seq: until.checked_sub(1), limit: Some(1), ..journal::Filter::default() };
    Ok(kernel.ledger.read(&at).map_err(fault_error)?.first().map_or(0, |record| record.at_ms))
}

/// Takes away what a task is only now, and puts in what it was.
fn as_it_was(task: &mut TaskView, report: &SessionReport) {
    task.state = report.state.into();
    task.review = if let TaskState::Parked { review } = report.state { Some(review) } else { None };
    (task.summary, task.ended_ms, task.episodes) = (report.summary.clone(), report.ended_ms, report.episodes);
    (task.merge, task.undo_left, task.kept, task.usage) = (None, 0, None, None);
    (task.remedy, task.stopped_by, task.waits, task.behind, task.paused_for) = (None, None, None, None, None);
    (task.outputs, task.artifacts, task.artifact_errors) = (Vec::new(), Default::default(), Default::default());
}

/// What each call of a dry run would have done.
fn would_of(kernel: &Kernel, id: TaskId) -> Result<BTreeMap<CallId, String>, RpcError> {
    let events = kernel.ledger.events(id, &["call.finished"]).map_err(fault_error)?;
    let would =
        |event| if let Event::CallFinished(end) = event { Some((end.call, wire::method::plan::would_text(&end.output)?)) } else { None };
    Ok(events.into_iter().filter_map(would).collect())
}

/// Puts in what only the journal has; where it is told as it was, what the world says of now gives way.
fn fill(kernel: &Kernel, shown: &mut SessionView, report: SessionReport, until: Option<(u64, i64)>) -> Result<(), RpcError> {
    let text = report.plan_text(&kernel.ledger).map_err(rpc_error)?;
    shown.plan = report.plan.as_ref().map(|plan| plan_view(text.as_ref(), Some(plan)));
    if shown.terms.mode == SessionMode::DryRun {
        let would = would_of(kernel, shown.task.task)?;
        for step in shown.plan.iter_mut().flat_map(|plan| &mut plan.steps) {
            step.would = step.call.and_then(|call| would.get(&call).cloned());
        }
    }
    let in_sandbox = |tool: &str| kernel.tools.registry.get(tool).is_some_and(|tool| tool.manifest().room == tool::Room::Sandbox);
    for step in shown.plan.iter_mut().flat_map(|plan| &mut plan.steps) {
        if step.status == Some(StepStatus::Running) && in_sandbox(&step.tool) {
            step.frozen_by.clone_from(&report.frozen_by);
        }
    }
    if let Some((until, at_ms)) = until {
        (shown.status, shown.until_ms) = (report.status, Some(at_ms));
        as_it_was(&mut shown.task, &report);
        shown.task.calls = calls_settled_until(&kernel.ledger, shown.task.task, until).map_err(rpc_error)?;
        (shown.seq, shown.iteration, shown.steps_made) = (report.seq, report.iteration, report.steps_made);
        shown.plan_number = report.plan.as_ref().map_or(0, |plan| plan.number);
        shown.plan_replaced = report.plan.as_ref().and_then(|plan| plan.replaced.clone());
        shown.delegate = report.delegate;
        let of = |status: StepStatus| {
            let begun = report.plan.iter().flat_map(|plan| plan.begun.values());
            begun.filter(|step| step.status == status).count() as u64
        };
        shown.steps = StepCounts {
            total: report.plan.as_ref().map_or(0, |plan| u64::from(plan.steps)),
            running: of(StepStatus::Running),
            succeeded: of(StepStatus::Succeeded),
            failed: of(StepStatus::Failed),
            skipped: of(StepStatus::Skipped),
        };
    }
    shown.futile = report.futile;
    shown.reviews_of_plans = report
        .reviews
        .into_iter()
        .map(|review| PlanReview {
            iteration: review.iteration,
            round: review.round,
            findings: review.findings,
            rejected: review.is_rejected,
            off: review.is_off,
            most: review.most,
        })
        .collect();
    shown.iterations = report.iterations;
    shown.lessons = kernel.ledger.look(|world| {
        let found = report.lessons.iter().filter_map(|id| world.lessons.get(id).map(|lesson| (*id, lesson)));
        found.map(|(id, lesson)| crate::memory::lesson_view(id, lesson)).collect::<Vec<LessonView>>()
    });
    shown.delegated = report.delegated;
    shown.context = report.context.map(|(verdict, used, budget)| ContextView { verdict, used, budget });
    shown.limits_reached = report.limits_reached.into_iter().map(|(limit, used, max)| format!("{limit}: {used} of {max}")).collect();
    Ok(())
}

/// Answers, then sends the session's records until the client hangs up.
pub(crate) async fn watch(kernel: &Kernel, params: SessionWatchParams, to: Responder) {
    if let Err(error) = session_of(kernel, params.task) {
        return to.answer::<wire::table::SessionWatch>(Err(error)).await;
    }
    let wanted = RecordFilter { task: Some(params.task), after_seq: params.after_seq, ..RecordFilter::default() };
    records::stream::<wire::table::SessionWatch>(kernel, wanted, to).await;
}

pub(crate) async fn abort(kernel: &Kernel, id: TaskId, by: &str) -> Result<SessionView, RpcError> {
    session_of(kernel, id)?;
    kernel.cancel(id, by).await.map_err(rpc_error)?;
    show(kernel, &SessionShowParams { task: id, brief: false, until_seq: None })
}

pub(crate) async fn resume(kernel: &Kernel, id: TaskId, by: &str) -> Result<TaskContinueResult, RpcError> {
    session_of(kernel, id)?;
    continued(kernel, kernel.retry(id, None, by).await.map_err(rpc_error)?)
}

/// Checks the chain, and that its records make the session that is known.
pub(crate) async fn replay(kernel: &Arc<Kernel>, params: &SessionReplayParams) -> Result<SessionReplayResult, RpcError> {
    let id = params.task;
    let (report, differences) = compared(kernel, id).await?;
    let (_, session) = session_of(kernel, id)?;
    let chain = records::verify(kernel).await?;
    let told = |found: &FindingView| match found.seq {
        Some(seq) => format!("record {seq}: {}, {}", found.what, found.why),
        None => format!("{}, {}", found.what, found.why),
    };
    let mut findings: Vec<String> = chain.findings.iter().map(told).collect();
    findings.extend(differences);
    let again = match params.reexecute {
        true => Some(reexecuted(kernel, id).await?),
        false => None,
    };
    Ok(SessionReplayResult { of: id, records: report.records, steps: session.steps_made, findings, again })
}

async fn reexecuted(kernel: &Arc<Kernel>, id: TaskId) -> Result<ReexecutedView, RpcError> {
    let Reexecution { plans, steps, calls, digest, divergence, .. } = kernel.reexecute_session(id).await.map_err(rpc_error)?;
    let (differs_at, difference) = divergence.unzip();
    Ok(ReexecutedView { plans, steps, calls, digest, differs_at, difference })
}

pub(crate) async fn fork(kernel: &Kernel, params: &SessionForkParams) -> Result<TaskAddResult, RpcError> {
    session_of(kernel, params.task)?;
    Ok(added(kernel.fork_session(params.task, &params.at).await.map_err(rpc_error)?))
}

/// How often a session that is at work is looked at, until its records and what is known of it are of one moment.
const LOOKS_MAX: u32 = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The records of a session, and where what is known of it differs from them. What is known goes on while records are read: a difference counts only
/// if nothing happened meanwhile.
async fn compared(kernel: &Kernel, id: TaskId) -> Result<(SessionReport, Vec<String>), RpcError> {
    for _ in 0..LOOKS_MAX {
        let before = session_of(kernel, id)?;
        kernel.ledger.settle_late().await.map_err(|fault| rpc_error(fault.into()))?;
        let report = SessionReport::read(&kernel.ledger, id, None).map_err(rpc_error)?;
        let after = session_of(kernel, id)?;
        let found = differences(&after.0, &after.1, &report);
        let is_still = before == after && after.0.state.at_rest();
        if found.is_empty() || is_still {
            return Ok((report, found));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let refusal = Refusal::new(Code::WrongState, format!("{id} is at work, and went on each time its records were read"));
    Err(rpc_error(refusal.hint("try again when it has ended").into()))
}

/// Where something else is known of a session than its records say.
fn differences(task: &Task, session: &Session, report: &SessionReport) -> Vec<String> {
    let mut found = Vec::new();
    let mut hold = |what: &str, known: String, recorded: String| {
        if known != recorded {
            found.push(format!("{what} is {known}, and its records say {recorded}"));
        }
    };
    hold("its status", session.status(task.state).as_str().to_owned(), report.status.as_str().to_owned());
    hold("its iteration", session.iteration.to_string(), report.iteration.to_string());
    hold("the number of its steps", session.steps_made.to_string(), report.steps_made.to_string());
    let told = |name: &String, status: StepStatus| format!("{name} {}", status.as_str());
    let known: Vec<String> = session.plan.iter().flat_map(|plan| plan.begun.iter()).map(|(name, step)| told(name, step.status)).collect();
    let recorded: Vec<String> = report.plan.iter().flat_map(|plan| plan.begun.iter()).map(|(name, step)| told(name, step.status)).collect();
    hold("the state of its steps", known.join(", "), recorded.join(", "));
    found
}
