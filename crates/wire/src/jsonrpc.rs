//! JSON-RPC 2.0: the text of a frame as a message.
//!
//! Parameters and results stay raw until the method that knows their type reads them. Batches are not supported.

use crate::{ErrorCode, FrameError};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use world::{Refusal, Remedy, ReviewId};

const VERSION: &str = "2.0";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RpcId {
    Number(u64),
    Text(String),
    /// The answer to something that could not be read.
    Null,
}

#[derive(Clone, Debug)]
pub enum Message {
    Request(RpcRequest),
    Notification(Notification),
    Response(RpcResponse),
}

#[derive(Clone, Debug)]
pub struct RpcRequest {
    pub id: RpcId,
    pub method: String,
    pub params: Option<Box<RawValue>>,
}

#[derive(Clone, Debug)]
pub struct Notification {
    pub method: String,
    pub params: Option<Box<RawValue>>,
}

#[derive(Clone, Debug)]
pub struct RpcResponse {
    pub id: RpcId,
    pub outcome: Result<Box<RawValue>, RpcError>,
}

/// A JSON-RPC error. `message` is what happened, `data` says why and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    pub data: ErrorData,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorData {
    pub code: ErrorCode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the caller can do differently, in words that hold for every face.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the operator can do; each face has its own words for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Box<Remedy>>,
    /// The review that waits for an answer, with [`ErrorCode::Pending`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewId>,
}

impl RpcError {
    pub fn new(code: ErrorCode, what: impl Into<String>) -> RpcError {
        RpcError { code: code.rpc(), message: what.into(), data: ErrorData { code, reason: None, hint: None, remedy: None, review: None } }
    }

    #[must_use]
    pub fn why(mut self, reason: impl Into<String>) -> RpcError {
        self.data.reason = Some(reason.into());
        self
    }

    #[must_use]
    pub fn fix(mut self, hint: impl Into<String>) -> RpcError {
        self.data.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> RpcError {
        self.data.remedy = Some(Box::new(remedy));
        self
    }

    /// `what` did not happen because of `refusal`.
    pub fn refused(what: impl Into<String>, refusal: Refusal) -> RpcError {
        let mut error = RpcError::from(refusal);
        error.data.reason = Some(std::mem::replace(&mut error.message, what.into()));
        error
    }
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> RpcError {
        let code = ErrorCode::from(&refusal);
        RpcError {
            code: code.rpc(),
            message: refusal.reason,
            data: ErrorData { code, reason: None, hint: refusal.hint, remedy: refusal.remedy, review: refusal.review },
        }
    }
}

/// Text that is no JSON-RPC message. Answer it with [`MalformedMessage::answer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct MalformedMessage {
    pub code: ErrorCode,
    pub why: String,
    /// The id it came with, if one could be read.
    pub id: RpcId,
}

impl MalformedMessage {
    pub fn answer(self) -> RpcResponse {
        let error = RpcError::new(self.code, "the message is not a JSON-RPC 2.0 request").why(self.why);
        RpcResponse { id: self.id, outcome: Err(error) }
    }
}

impl FrameError {
    /// What to tell the peer; `None` when the stream is gone and nobody would hear it.
    pub fn answer(&self) -> Option<RpcResponse> {
        let code = match self {
            FrameError::TooLong { .. } => ErrorCode::TooLarge,
            FrameError::Empty | FrameError::NotUtf8 { .. } => ErrorCode::Unreadable,
            FrameError::Cut | FrameError::Io(_) => return None,
        };
        let error = RpcError::new(code, "the frame cannot be read").why(self.to_string());
        Some(RpcResponse { id: RpcId::Null, outcome: Err(error) })
    }
}

/// Every key that a message may have; which of them are present decides its kind.
#[derive(Deserialize)]
struct Parts {
    jsonrpc: Option<String>,
    #[serde(default, deserialize_with = "present")]
    id: Option<RpcId>,
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
}

/// Distinguishes a `null` from a missing key.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Message {
    pub fn parse(text: &str) -> Result<Message, MalformedMessage> {
        let malformed = |code, why: String| MalformedMessage { code, why, id: RpcId::Null };
        // A sequence would deserialise into the struct by position.
        if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
            return Err(match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => malformed(ErrorCode::BadRequest, "it is not a JSON object".into()),
                Err(error) => malformed(ErrorCode::Unreadable, error.to_string()),
            });
        }
        let parts: Parts = serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => malformed(ErrorCode::BadRequest, error.to_string()),
            _ => malformed(ErrorCode::Unreadable, error.to_string()),
        })?;
        let refuse =
            |why: &str| MalformedMessage { code: ErrorCode::BadRequest, why: why.into(), id: parts.id.clone().unwrap_or(RpcId::Null) };
        if parts.jsonrpc.as_deref() != Some(VERSION) {
            return Err(refuse("`jsonrpc` is not \"2.0\""));
        }
        if parts.params.as_ref().is_some_and(|params| !params.get().starts_with(['{', '['])) {
            return Err(refuse("`params` is neither an object nor an array"));
        }
        match (parts.method, parts.id, parts.result, parts.error) {
            (Some(method), Some(RpcId::Null), ..) => Err(MalformedMessage {
                code: ErrorCode::BadRequest,
                why: format!("`id` is null in a request for `{method}`"),
                id: RpcId::Null,
            }),
            (Some(method), Some(id), None, None) => Ok(Message::Request(RpcRequest { id, method, params: parts.params })),
            (Some(method), None, None, None) => Ok(Message::Notification(Notification { method, params: parts.params })),
            (None, Some(id), Some(result), None) => Ok(Message::Response(RpcResponse { id, outcome: Ok(result) })),
            (None, Some(id), None, Some(error)) => Ok(Message::Response(RpcResponse { id, outcome: Err(error) })),
            (_, id, ..) => Err(MalformedMessage {
                code: ErrorCode::BadRequest,
                why: "it has neither `method`, nor `id` with one of `result` and `error`".into(),
                id: id.unwrap_or(RpcId::Null),
            }),
        }
    }
}

/// One message as it is written; absent keys are left out.
#[derive(Serialize)]
struct Written<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RpcId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

impl Written<'_> {
    const NOTHING: Written<'static> = Written { jsonrpc: VERSION, id: None, method: None, params: None, result: None, error: None };

    fn text(&self) -> String {
        // Strings, numbers and JSON that was already read cannot fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl RpcRequest {
    pub fn text(&self) -> String {
        Written { id: Some(&self.id), method: Some(&self.method), params: self.params.as_deref(), ..Written::NOTHING }.text()
    }
}

impl Notification {
    pub fn text(&self) -> String {
        Written { method: Some(&self.method), params: self.params.as_deref(), ..Written::NOTHING }.text()
    }
}

impl RpcResponse {
    pub fn text(&self) -> String {
        match &self.outcome {
            Ok(result) => Written { id: Some(&self.id), result: Some(result), ..Written::NOTHING }.text(),
            Err(error) => Written { id: Some(&self.id), error: Some(error), ..Written::NOTHING }.text(),
        }
    }
}

#[cfg(test)]
mod tests;
