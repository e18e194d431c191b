//! The door: every act of every process passes here.
//!
//! Find, facts, gate, run, settle; each step is a file in `call/`, entered once and in this order. **Invariant.** A tool runs only with a
//! [`gate::Permit`], and a permit exists only for a call whose admission is on disk. A request to a model that a lease on disk pays for
//! may leave while its admission is written; nothing of its answer is told before.

mod call_facts;
mod facts;
mod find;
mod gate;
mod judge;
mod model;
mod network;
mod pattern;
mod record;
mod run;
mod settle;
mod subcall;

use crate::Kernel;
use crate::job::JobTerms;
pub(crate) use call_facts::{CallFacts, Details, ReaderFacts, Who, used};
pub(crate) use facts::network_target;
use facts::{Facts, Purpose};
use find::{Found, Turn};
use gate::Admission;
pub(crate) use gate::ExtraEvents;
pub(crate) use judge::{CallerRights, Judgement, LOST};
pub(crate) use model::{ModelAdmission, ModelFacts, ModelPermit, admit_model, record_refusal};
pub(crate) use network::PROXY_PORT;
use policy::Peer;
pub(crate) use record::KEPT_CHARS;
use run::Ran;
use serde_json::{Value, json};
pub(crate) use settle::report;
use std::time::{Duration, Instant};
use tool::{RegisteredTool, RunMode};
use world::{CallId, Code, Fault, Hands, Pid, Refusal, Stop, TaskId, ZoneId};

/// A call that somebody wants made.
#[derive(Clone, Debug)]
pub struct Request {
    pub pid: Pid,
    /// The work it is part of; without one only reads are possible.
    pub task: Option<TaskId>,
    pub zone: ZoneId,
    pub tool: String,
    pub input: Value,
    pub hands: Hands,
    pub run_mode: RunMode,
    /// A capability token and who presents it.
    pub token: Option<(String, Peer)>,
    /// The running call that this one is part of.
    pub of: Option<CallId>,
    /// Whoever follows its job.
    pub live: Option<std::sync::Arc<tool::JobFollower>>,
    /// What the process of its job is called, and may spend.
    pub job: JobTerms,
}

impl Request {
    /// A live call by the kernel's hands, without a token.
    pub fn new(pid: Pid, task: Option<TaskId>, zone: ZoneId, tool: &str, input: Value) -> Request {
        Request {
            pid,
            task,
            zone,
            tool: tool.to_owned(),
            input,
            hands: Hands::Kernel,
            run_mode: RunMode::Live,
            token: None,
            live: None,
            job: JobTerms::default(),
            of: None,
        }
    }

    pub(crate) fn who(&self) -> Who {
        Who { pid: self.pid, zone: self.zone, task: self.task }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct CallOutcome {
    /// `None` while a person is being asked.
    pub call: Option<CallId>,
    /// The rules that spoke.
    pub rules: Vec<String>,
    pub end: CallEnd,
    /// Time from the request to the decision, and from there to the end.
    pub gate: Duration,
    pub run: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CallEnd {
    /// The tool ran; `ok` is its own word for success.
    Done {
        ok: bool,
        value: Value,
    },
    /// The caller may act with its own hands.
    CallerExecutes,
    Refused(Refusal),
    /// A person must answer first; ask again then.
    Pending(Refusal),
}

/// Carries one call from request to outcome: find, facts, gate, run, settle.
pub(crate) async fn run(kernel: &Kernel, request: &Request) -> Result<CallOutcome, Fault> {
    let start = Instant::now();
    let Turn { tool, breaker, lock: _lock } = match find::find(kernel, request).await {
        Ok(Found::Tool(turn)) => turn,
        Ok(Found::Adapter(tool)) => return run_adapted(kernel, request, tool, start).await,
        Err(refusal) => return settle::refuse(kernel, request, refusal, start).await,
    };
    let Considered { request, facts, admission } = match consider(kernel, request, tool).await {
        Ok(considered) => considered,
        Err(Stop::Refused(refusal)) => return settle::refuse(kernel, request, refusal, start).await,
        Err(Stop::Failed(fault)) => return Err(fault),
    };
    let (permit, rules) = match admission {
        Admission::Admitted { permit, rules } => (permit, rules),
        no => return Ok(CallOutcome::not_admitted(no, start)),
    };
    let gate = start.elapsed();
    if request.hands == Hands::Caller {
        return Ok(CallOutcome { call: Some(permit.call), rules, end: CallEnd::CallerExecutes, gate, run: Duration::ZERO });
    }
    let ran = run::run(kernel, &permit, tool, breaker, &request, facts).await;
    let end = settle::finish(kernel, Some(tool), &request, &permit, ran).await?;
    Ok(CallOutcome { call: Some(permit.call), rules, end, gate, run: start.elapsed().saturating_sub(gate) })
}

/// A call with its facts and the gate's word on it. The request may differ from what was asked where a grant overrides its input.
struct Considered {
    request: Request,
    facts: Facts,
    admission: Admission,
}

/// Gathers facts and decides on them; once more if the policy changed in between, then no.
async fn consider(kernel: &Kernel, asked: &Request, tool: &RegisteredTool) -> Result<Considered, Stop> {
    for _ in 0..2 {
        let (request, facts) = facts::gather(kernel, asked, tool).await?;
        if let Some(admission) = gate::admit(kernel, &request, &facts).await? {
            return Ok(Considered { request, facts, admission });
        }
    }
    Err(stale().into())
}

/// Carries a call of a tool whose work a built-in one does: judged, recorded and run as that one, under its own names outside.
async fn run_adapted(kernel: &Kernel, request: &Request, tool: &RegisteredTool, start: Instant) -> Result<CallOutcome, Fault> {
    let inner = match tool.adapted(&request.input) {
        Some(Ok((name, input))) => Request { tool: name.to_owned(), input, ..request.clone() },
        Some(Err(refusal)) => return settle::refuse(kernel, request, refusal, start).await,
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

/// Carries a call that the kernel itself carries out, through the same gate.
pub(crate) async fn run_syscall(
    kernel: &Kernel,
    request: &Request,
    work: impl Future<Output = Result<Value, Fault>>,
) -> Result<CallOutcome, Stop> {
    let start = Instant::now();
    let facts = facts::of_syscall(kernel, request).await?;
    if let Some(no) = unsupported_override(kernel, request, &facts) {
        return Ok(settle::refuse(kernel, request, no, start).await?);
    }
    let Some(admission) = gate::admit(kernel, request, &facts).await? else {
        return Ok(settle::refuse(kernel, request, stale(), start).await?);
    };
    let (permit, rules) = match admission {
        Admission::Admitted { permit, rules } => (permit, rules),
        no => return Ok(CallOutcome::not_admitted(no, start)),
    };
    let gate = start.elapsed();
    let value = work.await?;
    let ran = Ran::well(value, start.elapsed().saturating_sub(gate));
    let end = settle::finish(kernel, None, request, &permit, ran).await?;
    Ok(CallOutcome { call: Some(permit.call), rules, end, gate, run: start.elapsed().saturating_sub(gate) })
}

/// What a call was to be decided on changed meanwhile, twice.
fn stale() -> Refusal {
    Refusal::new(Code::Denied, "the policy or a grant changed while the call was being decided").hint("ask again")
}

/// Why a call whose input nobody can change does not run: its grant demands another.
fn unsupported_override(kernel: &Kernel, request: &Request, facts: &Facts) -> Option<Refusal> {
    let (grant, _) = judge::demanded_input(kernel, &facts.call, &request.input)?;
    Some(
        Refusal::new(Code::Denied, format!("{grant} demands another input, and `{}` takes none from a grant", request.tool))
            .remedy(world::Remedy::RevokeGrant { grant }),
    )
}

/// Who would speak about a call, and why. Decides nothing and records nothing.
pub(crate) async fn explain(kernel: &Kernel, request: &Request, candidate: Option<&policy::Policy>) -> Result<policy::Explanation, Stop> {
    let tool = kernel.tools.find(request)?;
    if let Some(adapted) = tool.adapted(&request.input) {
        let (name, input) = adapted?;
        return Box::pin(explain(kernel, &Request { tool: name.to_owned(), input, ..request.clone() }, candidate)).await;
    }
    let purpose = if candidate.is_some() { Purpose::ExplainOther } else { Purpose::Explain };
    let facts = facts::gather_for(kernel, request, tool, purpose).await?;
    let now = kernel.instance.moment();
    let rights = kernel.ledger.look(|world| CallerRights::call(world, &facts.call, &now, world.now_ms));
    Ok(facts.call.explain_by(candidate.unwrap_or(&facts.call.trusted.policy), &rights))
}

impl CallOutcome {
    /// The end of a call that was not admitted.
    fn not_admitted(admission: Admission, start: Instant) -> CallOutcome {
        let (call, end, rules) = match admission {
            Admission::Refused { call, refusal, rules } => (Some(call), CallEnd::Refused(refusal), rules),
            Admission::Pending { refusal, rules } => (None, CallEnd::Pending(refusal), rules),
            Admission::Admitted { permit, rules } => (Some(permit.call), CallEnd::CallerExecutes, rules),
        };
        CallOutcome { call, rules, end, gate: start.elapsed(), run: Duration::ZERO }
    }
}
