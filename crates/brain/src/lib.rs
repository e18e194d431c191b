//! Talks to one mind.
//!
//! A brain is asked for its next move and told what came of the last one. It knows nothing of policy, journal or rooms.
//! **Invariant.** A brain acts only by returning a [`Move`]; what it wants done is done by the door or not at all.
#![forbid(unsafe_code)]

pub mod model;
mod native;
pub mod script;
mod spec;

pub use dialect::{Dialect, ToolSpec};
pub use native::Native;
pub use spec::{BrainSpec, UnknownBrain};

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
    Start { prompt: String, settled: u64, resumed: bool, memory: Vec<Vec<u8>> },
    /// The results of the calls, in their order.
    Results(Vec<CallResult>),
    /// The brain may make this call itself now.
    OwnCallAllowed(OwnCallId),
    /// The brain may not make this call.
    OwnCallRefused { id: OwnCallId, reason: String, hint: Option<String> },
    /// Nothing to tell: it only said something.
    Continue,
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
    /// Whether the work may change files.
    pub may_change: bool,
    /// Where the work stands, and what may be written now.
    pub workflow: Option<String>,
    /// What every request repeats however long the work gets.
    pub pins: Vec<String>,
    pub tools: Vec<ToolSpec>,
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
}

impl BrainFault {
    fn new(what: String) -> BrainFault {
        BrainFault { what, hint: None }
    }
}

pub trait Brain: Send {
    fn next(&mut self, input: BrainInput) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>>;

    /// What is to be kept before the last move is carried out; `None` when nothing is new.
    fn checkpoint(&mut self) -> Option<Checkpoint> {
        None
    }
}
