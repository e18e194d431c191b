//! The door: every act of every process passes here.
//!
//! Find, facts, gate, review, run, settle; each step is a file in `call/`. **Invariant.** A tool runs only with a [`gate::Permit`], and a permit
//! exists only for a call whose admission is on disk. A request to a model that a lease on disk pays for
//! may leave while its admission is written; nothing of its answer is told before.

mod egress;
mod facts;
mod gate;
pub(crate) mod judge;
mod like;
mod part;
mod settle;

use crate::Kernel;
use crate::job::JobTerms;
pub(crate) use egress::PROXY_PORT;
pub(crate) use facts::aim;
use facts::{Facts, Purpose};
use gate::Admission;
pub(crate) use gate::ExtraEvents;
use policy::Peer;
use serde_json::{Value, json};
pub(crate) use settle::KEPT_CHARS;
use std::time::{Duration, Instant};
use tool::{RunMode, Tool, ToolUnavailable};
use world::{CallId, Code, Hands, Pid, Refusal, TaskId, ZoneId};
use world::{Fault, Stop};

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
    pub live: Option<std::sync::Arc<tool::Live>>,
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

    pub(crate) fn who(&self) -> judge::Who {
        judge::Who { pid: self.pid, zone: self.zone, task: self.task }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// `None` while a person is being asked.
    pub call: Option<CallId>,
    /// The rules that spoke.
    pub rules: Vec<String>,
    pub end: End,
    /// Time from the request to the decision, and from there to the end.
    pub gate: Duration,
    pub run: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum End {
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

/// Carries one call from request to outcome.
pub(crate) async fn run(kernel: &Kernel, request: &Request) -> Result<Outcome, Fault> {
    let start = Instant::now();
    if kernel.ledger.is_flooded_by(request.pid) {
        let reason = format!("it made {} records within a minute", world::limits::RECORDS_BURST_MAX);
        return settle::refuse(kernel, request, Refusal::new(Code::Exhausted, reason).hint("wait a minute"), start).await;
    }
    let tool = match settle::found(kernel, request) {
        Ok(tool) => tool,
        Err(refusal) => return settle::refuse(kernel, request, refusal, start).await,
    };
    if tool.is_adapted() {
        return run_adapted(kernel, request, tool, start).await;
    }
    // Calls of a task run side by side unless they touch the same paths; then in the order they came, each seeing the one before.
    let _lane = match request.task {
        Some(task) => Some(kernel.lanes(task).enter(tool.touches_by_name(&request.input)).await),
        None => None,
    };
    let pass = match kernel.breakers.enter(&request.tool, kernel.tuning.clock.instant()) {
        Ok(pass) => pass,
        Err(refusal) => return settle::refuse(kernel, request, breaker_refusal(kernel, request, refusal), start).await,
    };
    let considered = match consider(kernel, request, tool).await {
        Ok(considered) => considered,
        Err(Stop::Refused(refusal)) => return settle::refuse(kernel, request, refusal, start).await,
        Err(Stop::Failed(fault)) => return Err(fault),
    };
    let (permit, rules) = match considered.admission {
        Admission::Admitted { permit, rules } => (permit, rules),
        no => return Ok(Outcome::no(no, start)),
    };
    let gate = start.elapsed();
    if request.hands == Hands::Caller {
        return Ok(Outcome { call: Some(permit.call), rules, end: End::CallerExecutes, gate, run: Duration::ZERO });
    }
    let output = permit.run(kernel, tool, pass, &considered.request, considered.facts).await;
    let end = settle::finish(kernel, Some(tool), &considered.request, &permit, output).await?;
    Ok(Outcome { call: Some(permit.call), rules, end, gate, run: start.elapsed().saturating_sub(gate) })
}

/// Carries a call of a tool whose work a built-in one does: judged, recorded and run as that one, under its own names outside.
async fn run_adapted(kernel: &Kernel, request: &Request, tool: &Tool, start: Instant) -> Result<Outcome, Fault> {
    let inner = match tool.adapted(&request.input) {
        Some(Ok((name, input))) => Request { tool: name.to_owned(), input, ..request.clone() },
        Some(Err(refusal)) => return settle::refuse(kernel, request, refusal, start).await,
        None => request.clone(),
    };
    let outcome = Box::pin(run(kernel, &inner)).await?;
    let end = match outcome.end {
        // A body that refused or failed says so in place of a result.
        End::Done { ok: false, value } if value["error"].is_string() && value["reason"].is_string() => match tool.adapted_absence() {
            Some(absent) if value["error"] == json!(Code::NotFound) => End::Done { ok: true, value: absent },
            _ => End::Done { ok: false, value },
        },
        End::Done { ok, value } => match tool.adapted_output(request.run_mode, value) {
            Ok(value) => End::Done { ok, value },
            Err(refusal) => End::Refused(refusal),
        },
        End::Refused(refusal) if refusal.code == Code::NotFound => match tool.adapted_absence() {
            Some(value) => End::Done { ok: true, value },
            None => End::Refused(refusal),
        },
        other => other,
    };
    Ok(Outcome { end, ..outcome })
}

/// A tool that failed too often rests; its caller is told what there is instead.
fn breaker_refusal(kernel: &Kernel, request: &Request, refusal: Refusal) -> Refusal {
    let resting = kernel.breakers.open(kernel.tuning.clock.instant());
    let names = kernel.tools.list().map(|tool| tool.manifest().name.clone());
    let available_tools = names.filter(|name| *name != request.tool && !resting.contains(name)).collect();
    let (tool_name, current_state) = (request.tool.clone(), "resting".to_owned());
    Refusal::from(&ToolUnavailable { tool_name, current_state, reason: refusal.reason, available_tools })
}

/// Carries a call that the kernel itself carries out, through the same gate.
pub(crate) async fn run_syscall(
    kernel: &Kernel,
    request: &Request,
    work: impl Future<Output = Result<Value, Fault>>,
) -> Result<Outcome, Stop> {
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
        no => return Ok(Outcome::no(no, start)),
    };
    let gate = start.elapsed();
    let value = work.await?;
    let output = (Ok(tool::Output { ok: true, value, retries: 0 }), start.elapsed().saturating_sub(gate));
    let end = settle::finish(kernel, None, request, &permit, output).await?;
    Ok(Outcome { call: Some(permit.call), rules, end, gate, run: start.elapsed().saturating_sub(gate) })
}

/// What rules can know of a request to a model.
pub(crate) struct ModelFacts<'a> {
    pub tier: &'a str,
    pub host: &'a str,
    /// Provider and model.
    pub words: Vec<String>,
    /// The room that it comes from.
    pub room: Option<world::UsedRoom>,
}

/// An admitted call that somebody else carries out.
pub(crate) struct ModelPermit(gate::Permit);

impl ModelPermit {
    pub fn call(&self) -> CallId {
        self.0.call
    }

    /// It may be carried out, and its admission is still being written.
    pub fn is_ahead(&self) -> bool {
        self.0.unrecorded.is_some()
    }

    /// There will be such a call: its admission is on disk, or on its way there.
    pub fn stands(&self, kernel: &Kernel) -> bool {
        self.0.unrecorded.as_ref().is_none_or(|unrecorded| kernel.ledger.stands(unrecorded))
    }

    /// Waits until the admission is on disk. After an error there is no such call, and its number may be another's.
    pub async fn recorded(&mut self, kernel: &Kernel) -> Result<(), Fault> {
        match self.0.unrecorded.take() {
            Some(unrecorded) => kernel.ledger.recorded(unrecorded).await,
            None => Ok(()),
        }
    }
}

pub(crate) enum ModelAdmission {
    Admitted(ModelPermit),
    No(Refusal),
}

/// Admits a request to a model, with what is reserved for it; the gateway carries it out, and its end is recorded by `model`.
pub(crate) async fn admit_model(
    kernel: &Kernel,
    request: &Request,
    about: ModelFacts<'_>,
    with: &gate::OnAdmit<'_>,
) -> Result<ModelAdmission, Stop> {
    let facts = facts::of_model(kernel, request, about).await?;
    if let Some(no) = unsupported_override(kernel, request, &facts) {
        settle::refuse(kernel, request, no.clone(), Instant::now()).await?;
        return Ok(ModelAdmission::No(no));
    }
    match gate::admit_with(kernel, request, &facts, with).await? {
        Some(Admission::Admitted { permit, .. }) => Ok(ModelAdmission::Admitted(ModelPermit(permit))),
        Some(Admission::Refused { refusal, .. } | Admission::Pending { refusal, .. }) => Ok(ModelAdmission::No(refusal)),
        None => Err(stale().into()),
    }
}

/// Records a request to a model that no policy was asked about.
pub(crate) async fn record_refusal(kernel: &Kernel, request: &Request, refusal: Refusal) -> Result<(), Fault> {
    settle::refuse(kernel, request, refusal, Instant::now()).await.map(drop)
}

/// A call with its facts and the gate's word on it. The request may differ from what was asked where a grant overrides its input.
struct Considered {
    request: Request,
    facts: Facts,
    admission: Admission,
}

/// Gathers facts and decides on them; once more if the policy changed in between, then no.
async fn consider(kernel: &Kernel, asked: &Request, tool: &Tool) -> Result<Considered, Stop> {
    for _ in 0..2 {
        let mut request = asked.clone();
        let mut facts = facts::gather(kernel, &request, tool).await?;
        if let Some((grant, input)) = gate::overridden(kernel, &request, &facts) {
            request.input = input;
            tool.check(&request.input)?;
            // INVARIANT: the answer was bound to what was asked; what runs differs from it only by what the answer itself demanded.
            let asked = std::mem::replace(&mut facts, facts::gather(kernel, &request, tool).await?);
            facts.call.bind = asked.call.bind;
            facts.demanded = Some(grant);
        }
        if let Some(admission) = gate::admit(kernel, &request, &facts).await? {
            return Ok(Considered { request, facts, admission });
        }
    }
    Err(stale().into())
}

/// What a call was to be decided on changed meanwhile, twice.
fn stale() -> Refusal {
    Refusal::new(Code::Denied, "the policy or a grant changed while the call was being decided").hint("ask again")
}

/// Why a call whose input nobody can change does not run: its grant demands another.
fn unsupported_override(kernel: &Kernel, request: &Request, facts: &Facts) -> Option<Refusal> {
    let (grant, _) = gate::overridden(kernel, request, facts)?;
    Some(
        Refusal::new(Code::Denied, format!("{grant} demands another input, and `{}` takes none from a grant", request.tool))
            .hint(format!("`skep grant revoke {grant}`, then answer without --set")),
    )
}

/// Who would speak about a call, and why. Decides nothing and records nothing.
pub(crate) async fn explain(kernel: &Kernel, request: &Request, candidate: Option<&policy::Policy>) -> Result<policy::Explanation, Stop> {
    let tool = settle::found(kernel, request)?;
    if let Some(adapted) = tool.adapted(&request.input) {
        let (name, input) = adapted?;
        return Box::pin(explain(kernel, &Request { tool: name.to_owned(), input, ..request.clone() }, candidate)).await;
    }
    let purpose = if candidate.is_some() { Purpose::ExplainOther } else { Purpose::Explain };
    let facts = facts::gather_for(kernel, request, tool, purpose).await?;
    let now = kernel.moment();
    let around = kernel.ledger.look(|world| judge::Around::call(world, &facts.call, &now, world.now_ms));
    Ok(facts.call.explain_by(candidate.unwrap_or(&facts.call.trusted.policy), &around))
}

/// Settles a call that its caller made with its own hands, on the caller's word.
pub(crate) async fn report(kernel: &Kernel, call: CallId, ok: bool, text: &str) -> Result<(), Fault> {
    settle::report(kernel, call, ok, text).await
}

impl Outcome {
    /// The end of a call that was not admitted.
    fn no(admission: Admission, start: Instant) -> Outcome {
        let (call, end, rules) = match admission {
            Admission::Refused { call, refusal, rules } => (Some(call), End::Refused(refusal), rules),
            Admission::Pending { refusal, rules } => (None, End::Pending(refusal), rules),
            Admission::Admitted { permit, rules } => (Some(permit.call), End::CallerExecutes, rules),
        };
        Outcome { call, rules, end, gate: start.elapsed(), run: Duration::ZERO }
    }
}
