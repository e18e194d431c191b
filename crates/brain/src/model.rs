//! The way to a model, as a brain sees it: one request, one streamed answer.
//!
//! Who stands behind it meters, caps and records; the brain only says what it wants and reads what comes.

use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The wire format that the model behind a [`Model`] speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions, and the many servers that speak it.
    Chat,
    /// Gemini generateContent.
    Gemini,
}

/// Why a request is made; a summary may go to a cheaper model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Work,
    Summary,
}

/// Which model answers, and how much it can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub speech: Speech,
    /// As the request names it.
    pub model: String,
    pub context_tokens: u64,
    pub output_tokens_max: u64,
}

/// What came back. The body streams; dropping it cancels the request.
pub struct Answer {
    pub status: u16,
    /// What the server said about when to come again.
    pub retry_after: Option<Duration>,
    /// The server said that asking again is of no use.
    pub settled: bool,
    pub body: Box<dyn Body>,
}

/// A body that comes in pieces.
pub trait Body: Send {
    /// The next piece; `None` at the end.
    fn piece(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, ModelFault>> + Send + '_>>;
}

/// The model could not be reached, or went away in the middle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ModelFault {
    pub what: String,
    pub then: Then,
    pub hint: Option<String>,
}

/// What a brain can do about a model that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Ask again after a while.
    Again,
    /// Say why, and ask again: it waited long already, and may go on waiting.
    Later,
    /// A person must answer first.
    Wait(world::ReviewId),
    Stop,
}

/// What an error's body says.
pub fn complaint(body: &[u8]) -> String {
    crate::native::complaint(body)
}

pub trait Model: Send + Sync {
    fn card(&self, purpose: Purpose) -> Card;

    /// Sends a request. `path` starts with a slash and belongs to the speech of the card.
    fn ask(&self, purpose: Purpose, path: String, body: Vec<u8>) -> Pin<Box<dyn Future<Output = Result<Answer, ModelFault>> + Send + '_>>;
}
