//! What the vendors' clients say on the wire, read and answered without changing it.
//!
//! Pure: bytes in, facts out.

use serde::{Deserialize, Serialize};

/// A wire format of a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions, and every server that is compatible with it.
    Chat,
    /// Gemini generateContent and streamGenerateContent.
    Gemini,
}

/// What a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Generate,
    CountTokens,
    Models,
}

/// Who counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The provider's own usage fields.
    Reported,
    /// Nobody but us: the answer carried no usage.
    #[default]
    Estimated,
}

/// Tokens of one request. `input` is what was neither read from nor written to a cache; `output` includes `reasoning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    pub source: Source,
}

/// What a request wants, read from path and body without changing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub dialect: Dialect,
    pub endpoint: Endpoint,
    /// As the client named it; empty where the endpoint has none.
    pub model: String,
    pub stream: bool,
    pub output_max: Option<u64>,
    /// Bytes of the body, images left out.
    pub input_bytes: u64,
    pub images: u32,
}

/// Why we answer instead of the provider; each dialect has its own word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The key is not this process's.
    Unauthorized,
    /// Policy says no, or a person must answer first.
    Denied,
    /// A budget is used up.
    Budget,
    /// Too many requests.
    RateLimited,
    /// The request cannot be read.
    BadRequest,
    TooLarge,
    NotFound,
    /// The provider is busy or cannot be reached.
    Overloaded,
    /// The provider failed, or we did.
    Upstream,
}

/// An answer of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// A request that this dialect cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is not one of {dialect:?}: {why}")]
pub struct BadRequest {
    pub dialect: Dialect,
    pub why: String,
}

impl Dialect {
    /// Which dialect and endpoint a method and path (query allowed) belong to.
    pub fn of(method: &str, path: &str) -> Option<(Dialect, Endpoint)> {
        let path = path.split('?').next().unwrap_or(path);
        match (method, path) {
            ("POST", "/v1/messages") => Some((Dialect::Anthropic, Endpoint::Generate)),
            ("POST", "/v1/messages/count_tokens") => Some((Dialect::Anthropic, Endpoint::CountTokens)),
            ("POST", "/v1/responses") => Some((Dialect::Responses, Endpoint::Generate)),
            ("POST", "/v1/chat/completions") => Some((Dialect::Chat, Endpoint::Generate)),
            _ => None,
        }
    }

    /// Reads a request. `path` includes the query.
    pub fn read(self, path: &str, body: &[u8]) -> Result<Ask, BadRequest> {
        let bad = |why: String| BadRequest { dialect: self, why };
        let value: serde_json::Value = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
        let endpoint = Dialect::of("POST", path).map_or(Endpoint::Generate, |(_, endpoint)| endpoint);
        Ok(Ask {
            dialect: self,
            endpoint,
            model: value.get("model").and_then(|model| model.as_str()).unwrap_or_default().to_owned(),
            stream: value.get("stream").and_then(serde_json::Value::as_bool).unwrap_or(false),
            output_max: value.get("max_tokens").and_then(serde_json::Value::as_u64),
            input_bytes: body.len() as u64,
            images: 0,
        })
    }

    /// The same request for another model or output limit; byte for byte the same where neither is given.
    pub fn rewrite(self, path: &str, body: &[u8], model: Option<&str>, output_max: Option<u64>) -> (String, Vec<u8>) {
        let _ = (model, output_max);
        (path.to_owned(), body.to_vec())
    }

    /// A meter for the answer to a request of this dialect.
    pub fn meter(self, stream: bool) -> Meter {
        Meter { dialect: self, stream, bytes: 0 }
    }

    /// A refusal as this provider's client expects it.
    pub fn refusal(self, status: u16, trouble: Trouble, message: &str) -> Reply {
        let body = serde_json::json!({"type": "error", "error": {"type": format!("{trouble:?}"), "message": message}});
        Reply { status, content_type: "application/json", body: body.to_string().into_bytes() }
    }
}

/// Reads usage out of an answer as it passes. Takes what the client gets, in pieces of any size; keeps little of it.
#[derive(Debug)]
pub struct Meter {
    pub dialect: Dialect,
    pub stream: bool,
    bytes: u64,
}

/// What a meter read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    pub usage: Usage,
    /// The model that answered, where the answer says so.
    pub model: Option<String>,
    /// What was odd about the answer, for the record.
    pub notes: Vec<String>,
}

impl Meter {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
    }

    pub fn finish(self) -> Metered {
        Metered { usage: Usage { output: self.bytes / 4, ..Usage::default() }, model: None, notes: Vec::new() }
    }
}
