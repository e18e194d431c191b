//! What can go wrong with an agent: in which method, and what.

use std::time::Duration;
use tonic::{Code, Status};

/// A call of an agent that failed.
#[derive(Debug, thiserror::Error)]
#[error("`{method}` of the agent failed: {kind}")]
pub struct LinkError {
    pub method: &'static str,
    pub kind: LinkErrorKind,
}

#[derive(Debug, thiserror::Error)]
pub enum LinkErrorKind {
    #[error("the connection cannot be used: {0}")]
    Connection(hyper::Error),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{}: {}", .0.code(), .0.message())]
    Status(Box<Status>),
    #[error("the agent is not ready: {0}")]
    NotReady(String),
    #[error("the agent ended the stream before the task")]
    EndedEarly,
    #[error("the agent reports on task `{found}` in the stream of task `{expected}`")]
    OtherTask { expected: String, found: String },
    #[error("the agent acknowledges message `{found}` instead of `{expected}`")]
    OtherMessage { expected: String, found: String },
    #[error("the agent sent a kind of progress that the contract does not have: {0}")]
    UnknownProgress(i32),
    #[error("the agent made call `{0}` again before it was answered")]
    RepeatedCall(String),
    #[error("the agent made call `{0}` without saying which")]
    EmptyCall(String),
    #[error("the agent has more than {0} calls open")]
    TooManyCalls(usize),
    #[error("call `{0}` is not open")]
    UnknownCall(String),
    #[error("call `{0}` was answered with the result of another kind of call")]
    OtherAnswer(String),
    #[error("the agent takes no more input")]
    InputClosed,
    #[error("nobody answered the agent's question")]
    NoInput,
}

impl LinkErrorKind {
    pub(crate) fn of(self, method: &'static str) -> LinkError {
        LinkError { method, kind: self }
    }
}

impl LinkError {
    /// The status that the agent answered with, if it answered.
    pub fn code(&self) -> Option<Code> {
        match &self.kind {
            LinkErrorKind::Status(status) => Some(status.code()),
            _ => None,
        }
    }
}
