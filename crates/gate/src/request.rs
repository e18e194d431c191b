//! A call that somebody wants made, before anything is known of it.

use crate::call_facts::Who;
use policy::Peer;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tool::{Manifest, RunMode};
use world::{Budget, CallId, Hands, Pid, Refusal, StepRef, TaskId, ZoneId};

/// The role of the process that stands for a command of the operator's in a room.
pub const JOB: &str = "job";
/// The role of a program outside rooms that uses the gateway.
pub const CLIENT: &str = "client";
/// The call that is a question to the person.
pub const PERSON_ASK: &str = "person.ask";
/// The call that a request to a model is.
pub const MODEL_REQUEST: &str = "model.request";

/// The field of an output that says that its call was ended because its time was over.
pub const TIMED_OUT: &str = "timed_out";

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
    pub live: Option<Arc<tool::JobFollower>>,
    /// The manifest of the tool whose work it does, where that is another one: its permissions bound this call too.
    pub done_for: Option<Arc<Manifest>>,
    /// What the process of its job is called, and may spend.
    pub job: JobTerms,
    /// The step of a session that it is.
    pub step: Option<StepRef>,
    /// What it gives is the input of another step: it is kept exactly, beside what its caller hears of it.
    pub is_handed_on: bool,
    /// It was begun before, and nobody knows what came of that: where it changes something, a person is asked, whatever the policy says.
    pub was_lost: bool,
    /// How long its tool may run, beside the tool's own limit.
    pub time_max: Option<Duration>,
    /// What the caller itself said, where `input` is made of it and leaves something out: answers and outcomes belong to exactly this.
    pub asked: Option<Arc<Value>>,
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
            done_for: None,
            job: JobTerms::default(),
            asked: None,
            of: None,
            step: None,
            is_handed_on: false,
            was_lost: false,
            time_max: None,
        }
    }

    /// The exact words of the caller.
    pub fn said(&self) -> &Value {
        self.asked.as_deref().unwrap_or(&self.input)
    }

    pub fn who(&self) -> Who {
        Who { pid: self.pid, zone: self.zone, task: self.task }
    }
}

/// What an operator says of a job's process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobTerms {
    /// Instead of the program's own name.
    pub name: Option<String>,
    pub budget: Option<Budget>,
}

impl JobTerms {
    /// Refuses a budget that caps nothing or names unknown tiers.
    pub fn check(&self) -> Result<(), Refusal> {
        self.budget.as_ref().map_or(Ok(()), ledger::check_budget)
    }
}
