//! When a phase of test-first ends, and what a brain hears of it.
//!
//! A brain whose calls the kernel makes says so by `plan.complete`, and at the end of its turn. A brain with hands of its own works on while it
//! asks, so its phase is its turn: the kernel looks when nothing of it runs, and prompts the next one. **Invariant.** No brain's turn is its
//! task's last before the work is ready for review, or has stopped.

use crate::{Kernel, call};
use brain::{BrainSpec, ToolSpec};
use discipline::{PhaseEnd, PhaseWork, STALLED_MAX, TestFirst};
use gate::{CallOutcome, Request};
use serde_json::{Value, json};
use std::time::Instant;
use workflow::discipline::{PLAN_COMPLETE, REQUEST_EXEMPTION, available_tools, workflow_prompt};
use world::event::TaskContinued;
use world::{Code, Event, Fault, MergeState, Refusal, Stop, Task, TaskId, Workflow, WorkflowState};

/// What follows a turn of a brain.
pub(crate) enum AfterTurn {
    /// Its changes are proposed.
    Propose,
    /// It was prompted, and its next turn begins.
    Again,
    /// It does not get on.
    Stopped(String),
}

impl Kernel {
    pub(crate) fn test_first(&self) -> TestFirst<'_> {
        TestFirst { ledger: &self.ledger, gate: &self.gate, rooms: &self.rooms, throwaways: &self.throwaways, moments: &self.instance }
    }
}

/// Begins the work on a task that is held to tests first.
pub(crate) async fn begin(kernel: &Kernel, task: &Task) -> Result<(), Stop> {
    if task.workflow.is_none() {
        return Ok(());
    }
    let newest = kernel.ledger.look(|world| world.merges.values().rev().find(|merge| merge.task == task.id).map(|merge| merge.state));
    // What is said after a merge is a new wish, with tests of its own.
    if newest.is_some_and(|state| matches!(state, MergeState::Rejected | MergeState::Undone)) {
        review_again(kernel, task).await?;
    }
    kernel.test_first().begin(task).await
}

/// Takes up work that is over and was seen to pass, where some of it is kept.
async fn review_again(kernel: &Kernel, task: &Task) -> Result<(), Stop> {
    let now = kernel.ledger.task(task.id)?;
    if !now.workflow.as_deref().is_some_and(Workflow::was_seen) {
        return Ok(());
    }
    match kernel.kept_changes(&now)? {
        Some(kept) => kernel.test_first().review_again(task, &|path| kept.paths.contains_key(path)).await,
        None => Ok(()),
    }
}

/// Ends the present phase of a task in whose room nothing runs.
async fn complete(kernel: &Kernel, task: &Task) -> Result<PhaseEnd, Stop> {
    let state = kernel.ledger.task(task.id)?.workflow.as_deref().map(|workflow| workflow.state);
    if state == Some(WorkflowState::Planning) {
        return kernel.test_first().end_planning(task).await;
    }
    let _keeps = kernel.blobs.hold().await;
    let opened = kernel.workspace_of(task.id).await?;
    let base = kernel.base(task.id, &opened).await?;
    let base = format!("{}:{}", base.head.as_deref().unwrap_or_default(), base.blob);
    kernel.test_first().complete(&PhaseWork { task, opened: &opened, base: &base }).await
}

/// What follows a turn that is over. Nothing of its brain runs any more.
pub(crate) async fn after_turn(kernel: &Kernel, task: &Task) -> Result<AfterTurn, Stop> {
    if task.workflow.is_none() {
        return Ok(AfterTurn::Propose);
    }
    let end = complete(kernel, task).await?;
    if end.is_over() {
        return Ok(AfterTurn::Propose);
    }
    let now = kernel.ledger.task(task.id)?;
    let stalled = now.workflow.as_deref().map_or(0, |workflow| workflow.stalled);
    let why = end.stalled.clone().unwrap_or_default();
    // A session is prompted by nobody: its plans are what it does.
    if task.session.is_some() && end.stalled.is_some() {
        return Ok(AfterTurn::Stopped(why));
    }
    if stalled >= STALLED_MAX {
        return Ok(AfterTurn::Stopped(format!("{stalled} turns in a row did not get the work on: {why}")));
    }
    if task.session.is_some() {
        return Box::pin(after_turn(kernel, &now)).await;
    }
    let prompted = TaskContinued {
        pid: task.pid,
        task: Some(task.id),
        by: "kernel".to_owned(),
        prompt: Some(end.told),
        original: None,
        calls: None,
        propose: false,
    };
    kernel.ledger.record(prompted).await?;
    Ok(AfterTurn::Again)
}

/// Puts back what was written after the tests were seen to pass, in work that was kept since and is about to be proposed.
pub(crate) async fn hold_to_seen(kernel: &Kernel, task: &Task) -> Result<(), Stop> {
    review_again(kernel, task).await?;
    let now = kernel.ledger.task(task.id)?;
    if now.workflow.as_deref().is_some_and(|workflow| workflow.state == WorkflowState::Reviewing) {
        complete(kernel, &now).await?;
    }
    Ok(())
}

/// Is it a call by which a brain says something of its own work?
pub(crate) fn is_workflow_call(tool: &str) -> bool {
    policy::WORKFLOW_CALLS.contains(&tool)
}

/// Carries such a call, through the same gate as every other.
pub(crate) async fn make_call(kernel: &Kernel, request: &Request) -> Result<CallOutcome, Fault> {
    let start = Instant::now();
    let held = request.task.and_then(|id| kernel.ledger.task(id).ok()).filter(|task| task.workflow.is_some());
    let Some(task) = held else {
        let refusal = Refusal::new(Code::NotFound, format!("there is no `{}` here: tests need not come first in this task", request.tool));
        return kernel.gate.refuse(request, refusal, start).await;
    };
    let work = async {
        match answer(kernel, &task, request).await {
            Ok(value) => Ok(value),
            Err(Stop::Failed(fault)) => Err(fault),
            Err(Stop::Refused(refusal)) => Ok(json!({ "error": refusal.code.as_str(), "reason": refusal.reason })),
        }
    };
    match call::run_syscall(kernel, request, work).await {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Failed(fault)) => Err(fault),
        Err(Stop::Refused(refusal)) => kernel.gate.refuse(request, refusal, start).await,
    }
}

async fn answer(kernel: &Kernel, task: &Task, request: &Request) -> Result<Value, Stop> {
    match request.tool.as_str() {
        PLAN_COMPLETE => complete_by_call(kernel, task).await,
        REQUEST_EXEMPTION => kernel.test_first().request_exemption(task, &request.input).await,
        _ => shown(kernel, task.id),
    }
}

/// A brain says that its phase is over.
async fn complete_by_call(kernel: &Kernel, task: &Task) -> Result<Value, Stop> {
    let state = task.workflow.as_deref().map(|workflow| workflow.state);
    let has_hands = matches!(BrainSpec::parse(&task.brain), Ok(BrainSpec::Vendor { .. } | BrainSpec::Acp(_)));
    if has_hands && state != Some(WorkflowState::Planning) {
        let told = "Noted. End your turn now: the kernel looks at your work when nothing of you runs, and then tells you what comes next.";
        return Ok(json!({ "state": state, "told": told }));
    }
    let end = complete(kernel, task).await?;
    let prompt = kernel.ledger.task(task.id)?.workflow.as_deref().map(workflow_prompt);
    Ok(json!({ "state": end.state, "told": end.told, "stalled": end.stalled, "prompt": prompt }))
}

fn shown(kernel: &Kernel, id: TaskId) -> Result<Value, Stop> {
    let task = kernel.ledger.task(id)?;
    let Some(workflow) = task.workflow.as_deref() else { return Ok(Value::Null) };
    Ok(json!({
        "mode": workflow.mode,
        "state": workflow.state,
        "prompt": workflow_prompt(workflow),
        "available_tools": available_tools(workflow),
        "exemption": workflow.exemption,
        "red": workflow.red,
        "green": workflow.green,
    }))
}

/// What the built-in brain is told of the tools by which it says something of its own work.
pub(crate) fn tools_of(task: &Task) -> Vec<ToolSpec> {
    if task.workflow.is_none() {
        return Vec::new();
    }
    agent::workflow_tools()
        .into_iter()
        .map(|(tool, card)| ToolSpec { name: tool.to_owned(), description: card.description.to_owned(), input_schema: card.input_schema })
        .collect()
}

/// The end of the work, as part of the commit that ends its task or begins its merge.
pub(crate) fn entered(task: Option<&Task>, to: WorkflowState, why: &str) -> Option<Event> {
    let task = task?;
    let workflow = task.workflow.as_deref().filter(|workflow| workflow.state != to)?;
    if to == WorkflowState::Committing && workflow.state != WorkflowState::Reviewing {
        return None;
    }
    let (pid, id, mode, from) = (task.pid, Some(task.id), workflow.mode, workflow.state);
    Some(world::event::WorkflowEntered { pid, task: id, mode, from, to, why: why.to_owned(), snapshot: None }.into())
}
