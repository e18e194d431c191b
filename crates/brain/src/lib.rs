//! Talks to one mind.
//!
//! A brain is asked for its next move and told what came of the last one. It knows nothing of policy, journal or rooms.
//! **Invariant.** A brain acts only by returning a [`Move`]; what it wants done is done by the door or not at all.
#![forbid(unsafe_code)]

pub mod script;

use serde_json::Value;
use std::{future::Future, pin::Pin};

/// What a brain does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Tells the person something.
    Say(String),
    /// Asks the kernel to make a call.
    Call { tool: String, input: Value },
    /// Asks leave to make a call with hands of its own.
    Own { tool: String, input: Value },
    /// Reports how the last call with its own hands went: a claim, not a fact.
    Report { ok: bool, text: String },
    /// Considers the task finished.
    Done(String),
}

/// What a brain is told before its next move.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The task begins; or, `resumed`, begins again behind `settled` calls that have their outcome already.
    Start { prompt: String, settled: u64, resumed: bool },
    /// The call was made.
    Output { ok: bool, value: Value },
    /// Leave was given; the brain acts itself now.
    Leave,
    /// The call was refused.
    Refused { reason: String, hint: Option<String> },
    /// Nothing to tell: it only said something.
    Silence,
}

/// The mind cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BrainFault {
    pub what: String,
    pub hint: Option<String>,
}

pub trait Brain: Send {
    fn next(&mut self, heard: Heard) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>>;
}
