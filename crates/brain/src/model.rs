//! A model as a brain sees it: one request, one streamed response.
//!
//! Whoever stands behind it meters, caps and records; the brain only says what it wants and reads what comes.

use bytes::Bytes;
use dialect::Dialect;
pub use dialect::error_message;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Why a request is made; a summary may go to a cheaper model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Work,
    Summary,
}

/// Which model answers, and how much it can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    pub dialect: Dialect,
    /// As the request names it.
    pub model: String,
    pub context_tokens: u64,
    pub output_tokens_max: u64,
}

/// What came back. The body streams; dropping it cancels the request.
pub struct ModelResponse {
    pub status: u16,
    /// How long the server wants the brain to wait before it asks again.
    pub retry_after: Option<Duration>,
    /// The server said that asking again is of no use.
    pub is_final: bool,
    /// Whoever stands before the model refused the request, in words of its own: a budget, a rule, a key that is missing.
    pub is_refusal: bool,
    /// The model's host took no connection.
    pub is_unreachable: bool,
    /// Who gave the answer, where that is known.
    pub provider: Option<ProviderName>,
    pub body: Box<dyn ResponseBody>,
}

/// A provider as its operator knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderName {
    pub name: String,
    /// Where its key is kept, in words.
    pub key_place: Option<String>,
}

/// A body that comes in chunks.
pub trait ResponseBody: Send {
    /// The next chunk; `None` at the end.
    fn chunk(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, ModelFault>> + Send + '_>>;
}

/// The model could not be reached, or went away in the middle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ModelFault {
    pub what: String,
    pub retry: RetryClass,
    pub hint: Option<String>,
}

/// What a brain can do about a model that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryClass {
    /// Ask again after a while.
    Transient,
    /// Say why, and ask again: it waited long already, and may go on waiting.
    Waiting,
    /// A person must answer first.
    NeedsReview(world::ReviewId),
    /// Asking again is of no use before somebody changes something: a key, a budget, a server.
    Blocked(world::RetryCause),
    Final,
}

pub trait Model: Send + Sync {
    fn info(&self, purpose: Purpose) -> ModelInfo;

    /// Sends a request. `path` starts with a slash and belongs to the dialect of [`ModelInfo`].
    fn send(
        &self,
        purpose: Purpose,
        path: String,
        body: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<ModelResponse, ModelFault>> + Send + '_>>;
}
