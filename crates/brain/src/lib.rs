//! Talks to one mind.
//!
//! A brain is asked for its next move and told what came of the last one. It knows nothing of policy, journal or rooms.
//! **Invariant.** A brain acts only by returning a [`Move`]; what it wants done is done by the door or not at all.
#![forbid(unsafe_code)]

pub mod model;
mod native;
pub mod script;

pub use native::Native;

use serde_json::Value;
use std::{future::Future, pin::Pin};

/// A call that a brain wants made.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    pub tool: String,
    pub input: Value,
}

/// What a brain does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Tells the person something.
    Say(String),
    /// Asks the kernel to make calls, side by side where they don't touch the same things.
    Call(Vec<Wish>),
    /// Asks leave to make a call with hands of its own.
    Own(Wish),
    /// Reports how the last call with its own hands went: a claim, not a fact.
    Report { ok: bool, text: String },
    /// Can't go on before a person has answered.
    Wait(world::ReviewId),
    /// Considers the task finished.
    Done(String),
}

/// What a brain is told before its next move.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The task begins; or, `resumed`, begins again behind `settled` calls that have their outcome already, with what the brain
    /// gave to be kept, oldest first.
    Start { prompt: String, settled: u64, resumed: bool, memory: Vec<Vec<u8>> },
    /// What came of the calls, in their order.
    Ended(Vec<Ended>),
    /// Leave was given; the brain acts itself now.
    Leave,
    /// Leave was refused.
    Refused { reason: String, hint: Option<String> },
    /// Nothing to tell: it only said something.
    Silence,
}

/// What came of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    Output { ok: bool, value: Value },
    Refused(world::Refusal),
}

/// What a brain is told about a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCard {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
}

/// What a brain is told about its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Brief {
    pub role: String,
    /// May the work change files?
    pub may_change: bool,
    /// Where the work stands, and what may be written now.
    pub workflow: Option<String>,
    /// What must stay in sight however long the work gets.
    pub pins: Vec<String>,
    pub tools: Vec<ToolCard>,
}

/// What a brain wants kept, so that it can go on after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// It stands for all that was kept before.
    pub anew: bool,
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
    fn next(&mut self, heard: Heard) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>>;

    /// What is to be kept before the last move is carried out; `None` when nothing is new.
    fn keep(&mut self) -> Option<Keep> {
        None
    }
}
