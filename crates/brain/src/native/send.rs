//! One request, sent and answered, or the reason why not and what may help.

use super::context::{self, SUMMARY_TOKENS};
use super::prompt;
use crate::model::{Model, ModelFault, ModelInfo, ModelResponse, Purpose, RetryClass};
use dialect::{ChatRequest, DecodeError, Dialect, ServerQuirks, StopReason, StreamDecoder, Turn, error_message};
use std::time::Duration;
use world::RetryCause;

/// Bytes of an error's body that are read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// A request that brought no answer.
pub struct RequestFailure {
    pub fault: ModelFault,
    /// The server wants no other request before.
    pub retry_after: Duration,
    pub cause: FailureCause,
}

pub enum FailureCause {
    Other,
    /// The request was more than the model or the budget takes.
    TooLong,
    /// The server takes the request only in this form.
    Quirk(ServerQuirks),
    /// Nobody is there to take it.
    Unreachable,
}

impl From<ModelFault> for RequestFailure {
    fn from(fault: ModelFault) -> RequestFailure {
        RequestFailure { fault, retry_after: Duration::ZERO, cause: FailureCause::Other }
    }
}

impl RequestFailure {
    /// Whether it is of no use to ask for the same once more.
    pub fn is_final(&self) -> bool {
        matches!(self.fault.retry, RetryClass::Final | RetryClass::Blocked(_))
    }
}

/// Words by which servers, and our own budget, say that a request is too long. There is no code for it that two of them share.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "context length",
    "context_length",
    "context window",
    "maximum number of tokens",
    "shorten the conversation",
];

/// Sends a request. Any status but 200 is a failure, with what the server said about it.
pub async fn send(
    model: &dyn Model,
    purpose: Purpose,
    dialect: Dialect,
    request: &ChatRequest<'_>,
) -> Result<ModelResponse, RequestFailure> {
    let (path, body) = dialect.render_request(request);
    let mut response = model.send(purpose, path, body).await?;
    if response.status == 200 {
        return Ok(response);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.body.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > ERROR_BYTES_MAX {
            break;
        }
    }
    let message = error_message(&body);
    let is_transient = !response.is_final && matches!(response.status, 408 | 409 | 425 | 429 | 500..=599);
    let cause = match response.status {
        400 | 402 | 413 | 429 if !is_transient => cause_of(&message, dialect, request.quirks),
        _ => FailureCause::Other,
    };
    // 404 for a model that is not there has the same cause next time, unless somebody changes something.
    let lacks_model = response.status == 404 && !response.is_refusal && message.to_lowercase().contains("model");
    let without = response.provider.as_ref().filter(|_| lacks_model).map(|provider| provider.name.clone());
    let provider = response.provider.filter(|_| !response.is_refusal && is_about_key(response.status, &message));
    let hint = match (&provider, response.status) {
        (Some(provider), _) => Some(match &provider.key_place {
            Some(place) => format!("its key comes from {place}; put a valid one there"),
            None => "it wants a key, and none is set up: name one by `key` in $SKEP_HOME/config.yml".to_owned(),
        }),
        (None, _) if response.is_unreachable => Some(
            "see that the host is up and that your network lets you reach it; `url` in $SKEP_HOME/config.yml says where it is".to_owned(),
        ),
        (None, _) if without.is_some() => {
            Some("name another model; where a tier leads to it, change `models` in $SKEP_HOME/config.yml before you try again".to_owned())
        }
        (None, _) if is_transient => Some("try again later, or name a second model in `models` to fall back on".to_owned()),
        (None, _) => None,
    };
    let retry = match response.status {
        _ if response.is_unreachable => RetryClass::Transient,
        _ if is_transient => RetryClass::Transient,
        402 => RetryClass::Blocked(RetryCause::Budget),
        // What our own gateway tells a client of the Responses format at a cap.
        400 if response.is_refusal => RetryClass::Blocked(RetryCause::Budget),
        // A key, a rule, a name, a server, or a model that takes such a request: all of it can be mended, and then the work goes on.
        _ => RetryClass::Blocked(RetryCause::Model),
    };
    let what = match &provider {
        Some(provider) => format!("`{}` does not accept its key ({}): {message}", provider.name, response.status),
        // What was refused on the way to the model is not the model's answer.
        None if response.is_refusal => message,
        None if let Some(name) = without => format!("`{name}` does not have this model (404): {message}"),
        None => format!("the model answered {}: {message}", response.status),
    };
    let cause = if response.is_unreachable { FailureCause::Unreachable } else { cause };
    let fault = ModelFault { what, retry, hint };
    Err(RequestFailure { fault, retry_after: response.retry_after.filter(|_| is_transient).unwrap_or_default(), cause })
}

/// Whether an error is about the key that a request was made with. Not all vendors have 401 for it.
fn is_about_key(status: u16, message: &str) -> bool {
    let names_key = || ["api key", "api-key", "apikey", "api_key"].iter().any(|word| message.to_lowercase().contains(word));
    status == 401 || (matches!(status, 400 | 403) && names_key())
}

fn cause_of(message: &str, dialect: Dialect, quirks: ServerQuirks) -> FailureCause {
    let message = message.to_lowercase();
    match dialect.learn_quirk(&message, quirks) {
        Some(quirks) => FailureCause::Quirk(quirks),
        None if TOO_LONG.iter().any(|words| message.contains(words)) => FailureCause::TooLong,
        None => FailureCause::Other,
    }
}

/// A model that cannot hold even the beginning of the work.
pub fn too_small(model: &str, has: u64, needs: u64) -> RequestFailure {
    let what = format!("`{model}` takes {has} tokens, and this work needs {needs} before it begins");
    let hint = Some("use a model with a larger context; if it has one, say so by `context_tokens` of its provider".to_owned());
    ModelFault { what, retry: RetryClass::Blocked(RetryCause::Model), hint }.into()
}

/// Tokens that an answer may have: so many, or an eighth of the context if that is more, and never more than the model gives.
pub fn room_for_answer(model: &ModelInfo, least: u64) -> u64 {
    model.output_tokens_max.min(least.max(model.context_tokens / 8))
}

/// Bytes of turns that a request for a summary may quote.
pub fn room_for_summary(model: &ModelInfo) -> usize {
    let taken = room_for_answer(model, SUMMARY_TOKENS) + SUMMARY_TOKENS;
    // Four bytes a token, and a token of three bytes is no rarity: leave a third free.
    (model.context_tokens.saturating_sub(taken).max(SUMMARY_TOKENS) as usize) * 8 / 3
}

/// Asks for a summary of `told` in a request of its own: never longer than its share, nor than what it sums up.
pub async fn sum_up(model: &dyn Model, info: &ModelInfo, told: String, quirks: ServerQuirks) -> Result<String, RequestFailure> {
    let turns = [Turn::user(told.clone())];
    // More than a summary has: models that think do so at the expense of their answer.
    let output_tokens = room_for_answer(info, SUMMARY_TOKENS);
    let request = ChatRequest { model: &info.model, system: prompt::SUM_UP, tools: &[], turns: &turns, output_tokens, quirks };
    let mut response = send(model, Purpose::Summary, info.dialect, &request).await?;
    let mut decoder = StreamDecoder::new(info.dialect);
    while let Some(chunk) = response.body.chunk().await? {
        decoder.push(&chunk).map_err(decode_fault)?;
    }
    let (_, answer) = decoder.finish().map_err(decode_fault)?;
    if let StopReason::Withheld(why) = answer.stop {
        return Err(ModelFault { what: format!("the model would not sum up: {why}"), retry: RetryClass::Final, hint: None }.into());
    }
    let summary = Turn::model(answer.parts).text();
    if summary.trim().is_empty() {
        return Err(ModelFault { what: "the model summed nothing up".into(), retry: RetryClass::Final, hint: None }.into());
    }
    let summary = context::clip(&summary, context::SUMMARY_BYTES);
    Ok(if summary.len() > told.len() { told } else { summary.to_owned() })
}

pub fn decode_fault(error: DecodeError) -> ModelFault {
    let (what, is_transient) = match error {
        DecodeError::Truncated => ("the model's answer ended in the middle".to_owned(), true),
        DecodeError::Malformed(what) => (format!("the model's answer can't be read: {what}"), true),
        DecodeError::Reported { message, is_transient } => (format!("the model failed: {message}"), is_transient),
    };
    let retry = if is_transient { RetryClass::Transient } else { RetryClass::Blocked(RetryCause::Model) };
    ModelFault { what, retry, hint: None }
}
