//! The door: every act of every process passes here.
//!
//! Find, facts, gate, run, settle: find, facts and run are files in `call/`, the gate and what settles a call are the crate `gate`; each is
//! entered once and in this order.
//! **Invariant.** A tool runs only with a [`gate::Permit`], and a permit exists only for a call whose admission is on disk. A request to a
//! model that a lease on disk pays for may leave while its admission is written; nothing of its answer is told before.

mod facts;
mod find;
mod network;
mod run;
mod subcall;

use crate::{Kernel, KernelFuture, phase};
use facts::{FactsPurpose, GatheredFacts};
use find::{Found, ReadyTool};
use gate::{CallEnd, CallOutcome, Details, GateDecision, PERSON_ASK, Request, TimedOutput, TrustedPolicy, stale};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tool::RegisteredTool;
use world::{Code, Fault, Hands, Refusal, Stop};

/// What a vendor's client does that no tool of the kernel's stands for.
const BRAIN_USE: &str = "brain.use";

/// Carries one call from request to outcome: find, facts, gate, run, settle.
pub(crate) fn run<'a>(kernel: &'a Kernel, request: &'a Request) -> KernelFuture<'a, Result<CallOutcome, Fault>> {
    Box::pin(walk(kernel, request))
}

async fn walk(kernel: &Kernel, request: &Request) -> Result<CallOutcome, Fault> {
    if phase::is_workflow_call(&request.tool) {
        return phase::make_call(kernel, request).await;
    }
    let start = Instant::now();
    let ReadyTool { tool, breaker, lock: _lock } = match find::find(kernel, request).await {
        Ok(Found::Tool(turn)) => turn,
        Ok(Found::Adapter(tool)) => return run_adapted(kernel, request, tool, start).await,
        Err(refusal) => return kernel.gate.refuse(request, refusal, start).await,
    };
    let Considered { request, mut facts, admission } = match consider(kernel, request, tool).await {
        Ok(considered) => considered,
        Err(Stop::Refused(refusal)) => return kernel.gate.refuse(request, refusal, start).await,
        Err(Stop::Failed(fault)) => return Err(fault),
    };
    let (permit, rules) = match admission {
        GateDecision::Admitted { permit, rules } => (permit, rules),
        no => return Ok(CallOutcome::not_admitted(no, start)),
    };
    let gate = start.elapsed();
    if request.hands == Hands::Caller {
        return Ok(CallOutcome { call: Some(permit.call), rules, end: CallEnd::CallerExecutes, gate, run: Duration::ZERO });
    }
    let ran = {
        let running = pin!(run::run(kernel, &permit, tool, breaker, &request, &mut facts));
        if permit.is_late { kernel.ledger.write_if_waiting(running).await } else { running.await }
    };
    // What was opened for the call is closed before its end is told.
    drop(facts);
    let end = kernel.gate.finish(Some(tool), &request, &permit, ran).await?;
    Ok(CallOutcome { call: Some(permit.call), rules, end, gate, run: start.elapsed().saturating_sub(gate) })
}

/// A call with its facts and the gate's word on it. The request may differ from what was asked where a grant overrides its input.
struct Considered<'a> {
    request: Cow<'a, Request>,
    facts: GatheredFacts,
    admission: GateDecision,
}

/// Gathers facts and decides on them; once more if the policy changed in between, then no.
async fn consider<'a>(kernel: &Kernel, asked: &'a Request, tool: &RegisteredTool) -> Result<Considered<'a>, Stop> {
    for _ in 0..2 {
        let (request, facts) = facts::gather(kernel, asked, tool).await?;
        if let Some(admission) = kernel.gate.admit(&request, &facts.gate).await? {
            return Ok(Considered { request, facts, admission });
        }
    }
    Err(stale().into())
}

/// Carries a call of a tool whose work a built-in one does: judged, recorded and run as that one, under its own names outside.
async fn run_adapted(kernel: &Kernel, request: &Request, tool: &RegisteredTool, start: Instant) -> Result<CallOutcome, Fault> {
    let inner = match tool.adapted(&request.input) {
        Some(Ok((name, input))) => {
            Request { tool: name.to_owned(), input, done_for: Some(Arc::new(tool.manifest().clone())), ..request.clone() }
        }
        Some(Err(refusal)) => return kernel.gate.refuse(request, refusal, start).await,
        None => request.clone(),
    };
    let outcome = Box::pin(run(kernel, &inner)).await?;
    let end = match outcome.end {
        // A body that refused or failed says so in place of a result.
        CallEnd::Done { ok: false, value } if value["error"].is_string() && value["reason"].is_string() => match tool.adapted_absence() {
            Some(absent) if value["error"] == json!(Code::NotFound) => CallEnd::Done { ok: true, value: absent },
            _ => CallEnd::Done { ok: false, value },
        },
        CallEnd::Done { ok, value } => match tool.adapted_output(request.run_mode, value) {
            Ok(value) => CallEnd::Done { ok, value },
            Err(refusal) => CallEnd::Refused(refusal),
        },
        CallEnd::Refused(refusal) if refusal.code == Code::NotFound => match tool.adapted_absence() {
            Some(value) => CallEnd::Done { ok: true, value },
            None => CallEnd::Refused(refusal),
        },
        other => other,
    };
    Ok(CallOutcome { end, ..outcome })
}

/// Records what a brain's own hands did without asking.
pub(crate) async fn record_ungated(kernel: &Kernel, task: &world::Task, tool: &str) -> Result<(), Fault> {
    let input = json!({ "tool": if tool.is_empty() { "unknown" } else { tool }, "input": {} });
    let request = Request { hands: Hands::Caller, ..Request::new(task.pid, Some(task.id), task.zone, BRAIN_USE, input) };
    let refusal = Refusal::new(Code::Denied, "ungated: the brain used it without asking; its sandbox kept it from the project");
    kernel.gate.refuse(&request, refusal, Instant::now()).await.map(drop)
}

/// Carries a call that the kernel itself carries out, through the same gate.
pub(crate) async fn run_syscall(
    kernel: &Kernel,
    request: &Request,
    work: impl Future<Output = Result<Value, Fault>>,
) -> Result<CallOutcome, Stop> {
    let start = Instant::now();
    let read_only = request.tool == PERSON_ASK;
    let details = Details { run_mode: request.run_mode, read_only, ..Details::of(&request.tool, request.input.clone()) };
    let facts = kernel.gate.describe_without_files(request, details).await?;
    if let Some(no) = kernel.gate.unsupported_override(request, &facts.call) {
        return Ok(kernel.gate.refuse(request, no, start).await?);
    }
    let Some(admission) = kernel.gate.admit(request, &facts).await? else {
        return Ok(kernel.gate.refuse(request, stale(), start).await?);
    };
    let (permit, rules) = match admission {
        GateDecision::Admitted { permit, rules } => (permit, rules),
        no => return Ok(CallOutcome::not_admitted(no, start)),
    };
    let gate = start.elapsed();
    let value = work.await?;
    let ran = TimedOutput::success(value, start.elapsed().saturating_sub(gate));
    let end = kernel.gate.finish(None, request, &permit, ran).await?;
    Ok(CallOutcome { call: Some(permit.call), rules, end, gate, run: start.elapsed().saturating_sub(gate) })
}

/// Who would speak about a call, and why. Decides nothing and records nothing.
pub(crate) async fn explain(
    kernel: &Kernel,
    request: &Request,
    candidate: Option<&Arc<TrustedPolicy>>,
    terms: Option<&world::SessionTerms>,
) -> Result<policy::Explanation, Stop> {
    let tool = kernel.tools.find(request)?;
    if let Some(adapted) = tool.adapted(&request.input) {
        let (name, input) = adapted?;
        return Box::pin(explain(kernel, &Request { tool: name.to_owned(), input, ..request.clone() }, candidate, terms)).await;
    }
    let purpose = candidate.map_or(FactsPurpose::Explain, FactsPurpose::ExplainOther);
    let facts = facts::gather_for(kernel, request, tool, purpose).await?;
    let call = &facts.gate.call;
    let rights = kernel.gate.rights(call);
    let rights = if let Some(terms) = terms { rights.within_terms(terms) } else { rights };
    Ok(call.explain_by(&candidate.unwrap_or(&call.trusted).policy, &rights))
}
