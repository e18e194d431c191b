//! Talks to one mind.
//!
//! A brain is asked for its next move and told what came of the last one. It knows nothing of policy, journal or rooms.
//! **Invariant.** A brain acts only by returning a [`Move`]; what it wants done is done by the door or not at all.
#![forbid(unsafe_code)]

pub mod agent;
pub mod model;
mod native;
pub mod script;

pub use dialect::{Dialect, ToolSpec};
pub use native::{Native, QuestionFailure, SingleAnswer, SingleQuestion, ask_once, try_model};
pub use world::{BrainSpec, UnknownBrain, Vendor};

use serde_json::Value;
use std::{future::Future, pin::Pin};

/// A call that a brain wants made.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub tool: String,
    pub input: Value,
}

/// Which of a brain's calls with its own hands is meant. The brain chooses it, and no two that are open share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnCallId(pub u64);

/// What a brain does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Tells the person something.
    Say(String),
    /// Asks the kernel to make calls, side by side where they don't touch the same things.
    Call(Vec<ToolCall>),
    /// Asks leave to make a call with hands of its own. It stays open until it is reported; several may be.
    Own { id: OwnCallId, call: ToolCall },
    /// Reports how a call with its own hands went: a claim, not a fact. A report on a call that is not open is ignored.
    Report { id: OwnCallId, ok: bool, text: String },
    /// It used a tool of its own without asking: a fact, not a wish.
    Ungated { tool: String },
    /// Its conversation was shortened and goes on under the same name: a new stretch of the same work.
    Compacted,
    /// Can't go on before a person has answered.
    Wait(world::ReviewId),
    /// Considers the task finished.
    Done(String),
}

/// What a brain is told before its next move.
#[derive(Clone, Debug, PartialEq)]
pub enum BrainInput {
    /// The task begins; or, `resumed`, begins again behind `settled` calls that have their outcome already, with the checkpoints that the
    /// brain gave, oldest first.
    Start { prompt: String, settled: u64, resumed: bool, memory: Vec<Vec<u8>>, further: FurtherTurns },
    /// The results of the calls, in their order.
    Results(Vec<CallResult>),
    /// The brain may make this call itself now.
    OwnCallAllowed(OwnCallId),
    /// The brain may not make this call.
    OwnCallRefused { id: OwnCallId, reason: String, hint: Option<String> },
    /// Nothing to tell: it only said something.
    Continue,
    /// The task is done, and somebody wants to know something about it: one more turn, which may change nothing. A brain that was closed
    /// meanwhile is told it first of all.
    Hook(HookTurn),
}

/// What a brain is asked for after its task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookTurn {
    pub artifact: String,
    pub prompt: String,
    /// The task's own prompt and the brain's checkpoints, for one that begins again.
    pub task: String,
    pub memory: Vec<Vec<u8>>,
}

/// What a person said to a task after its prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FurtherTurns {
    /// Oldest first. A brain's own checkpoints say how many of them it has heard.
    pub prompts: Vec<String>,
    /// Calls that had their outcome when the last of these turns began; `None` where the turn before it still went on.
    pub settled_before: Option<u64>,
}

/// The result of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallResult {
    Output { ok: bool, value: Value },
    Refused(world::Refusal),
}

/// What a brain is told about its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Brief {
    pub role: String,
    /// What the project says that its role is.
    pub role_text: String,
    /// Whether the work may change files.
    pub may_change: bool,
    /// Where the work stands, and what may be written now.
    pub workflow: Option<String>,
    /// What every request repeats however long the work gets.
    pub pins: Vec<String>,
    /// What the project says to agents: text of its files, not the operator's word.
    pub project_texts: Vec<ProjectText>,
    pub tools: Vec<ToolSpec>,
}

/// A file of the project that is meant for agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectText {
    pub name: String,
    pub text: String,
}

/// What a brain wants kept, so that it can go on after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// It replaces all checkpoints before it.
    pub replaces_all: bool,
    pub bytes: Vec<u8>,
}

/// The mind cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BrainFault {
    pub what: String,
    pub hint: Option<String>,
    /// What stood in its way, where the same work can go on once that is gone.
    pub may_retry: Option<world::RetryCause>,
    /// Its program ended in the middle of its work: started again, it goes on.
    pub crashed: bool,
}

impl BrainFault {
    /// Something of this machine failed, and the same work can go on later.
    pub fn of_machine(what: String) -> BrainFault {
        BrainFault { may_retry: Some(world::RetryCause::Fault), ..BrainFault::new(what) }
    }

    fn new(what: String) -> BrainFault {
        BrainFault { what, hint: None, may_retry: None, crashed: false }
    }
}

pub trait Brain: Send {
    fn next(&mut self, input: BrainInput) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>>;

    /// What is to be kept before the last move is carried out; `None` when nothing is new.
    fn checkpoint(&mut self) -> Option<Checkpoint> {
        None
    }

    /// Its turn is over in order: whatever of it can wait for the next one is held still, and the rest ends. Nothing of it runs then.
    fn rest(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.close()
    }

    /// What it has been doing since its last move, for a person to read when it makes none.
    fn activity(&self) -> Option<String> {
        None
    }

    /// Ends what the brain has running, and comes back when nothing of it is left.
    fn close(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}
