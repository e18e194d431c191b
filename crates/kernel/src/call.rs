//! The door: every act of every process passes here.
//!
//! Find, facts, gate, review, run, settle; each step is a file in `call/`. **Invariant.** A tool runs only with a [`gate::Permit`], and a permit
//! exists only for a call whose admission is on disk.

mod facts;
mod gate;
mod settle;

use crate::Kernel;
use crate::fault::{Fault, Stop};
use facts::Facts;
use gate::Admission;
use serde_json::Value;
use std::time::{Duration, Instant};
use tool::Tool;
use world::{CallId, Code, Hands, Pid, Refusal, TaskId, ZoneId};

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
    Leave,
    Refused(Refusal),
    /// A person must answer first; ask again then.
    Pending(Refusal),
}

/// Carries one call from request to outcome.
pub(crate) async fn run(kernel: &Kernel, request: &Request) -> Result<Outcome, Fault> {
    let start = Instant::now();
    let tool = match settle::found(kernel, request) {
        Ok(tool) => tool,
        Err(refusal) => return settle::refuse(kernel, request, refusal, start).await,
    };
    let (facts, admission) = match consider(kernel, request, tool).await {
        Ok(considered) => considered,
        Err(Stop::Refused(refusal)) => return settle::refuse(kernel, request, refusal, start).await,
        Err(Stop::Failed(fault)) => return Err(fault),
    };
    let (permit, rules) = match admission {
        Admission::Admitted { permit, rules } => (permit, rules),
        Admission::Refused { call, refusal, rules } => return Ok(Outcome::no(Some(call), End::Refused(refusal), rules, start)),
        Admission::Pending { refusal, rules } => return Ok(Outcome::no(None, End::Pending(refusal), rules, start)),
    };
    let gate = start.elapsed();
    if request.hands == Hands::Caller {
        return Ok(Outcome { call: Some(permit.call), rules, end: End::Leave, gate, run: Duration::ZERO });
    }
    let output = permit.run(tool, request, facts).await;
    let end = settle::finish(kernel, request, &permit, output).await?;
    Ok(Outcome { call: Some(permit.call), rules, end, gate, run: start.elapsed().saturating_sub(gate) })
}

/// Gathers facts and decides on them; once more if the policy changed in between, then no.
async fn consider(kernel: &Kernel, request: &Request, tool: &Tool) -> Result<(Facts, Admission), Stop> {
    for _ in 0..2 {
        let facts = facts::gather(kernel, request, tool).await?;
        if let Some(admission) = gate::admit(kernel, request, &facts).await? {
            return Ok((facts, admission));
        }
    }
    Err(Refusal::new(Code::Denied, "the policy changed while the call was being decided").hint("ask again").into())
}

/// Settles a call that its caller made with its own hands, on the caller's word.
pub(crate) async fn report(kernel: &Kernel, call: CallId, ok: bool, text: &str) -> Result<(), Fault> {
    settle::report(kernel, call, ok, text).await
}

impl Outcome {
    fn no(call: Option<CallId>, end: End, rules: Vec<String>, start: Instant) -> Outcome {
        Outcome { call, rules, end, gate: start.elapsed(), run: Duration::ZERO }
    }
}
