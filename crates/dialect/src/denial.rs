//! Answers that a provider did not give: refusals in the vendor's own words, and requests that cannot be read.

use crate::Dialect;

/// Why a request is answered here instead of by the provider; each dialect has its own word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialKind {
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
    /// The provider failed, or the kernel did.
    Upstream,
    /// The operator must mend the settings first: there is no key, or the url leads elsewhere.
    Misconfigured,
    /// The operator cancelled the work that the request was for, or the kernel stops.
    Cancelled,
}

impl DenialKind {
    /// The status that most providers give it.
    pub(crate) fn status(self) -> u16 {
        match self {
            DenialKind::Unauthorized => 401,
            DenialKind::Denied => 403,
            DenialKind::Budget | DenialKind::Cancelled => 402,
            DenialKind::RateLimited => 429,
            DenialKind::BadRequest => 400,
            DenialKind::TooLarge => 413,
            DenialKind::NotFound => 404,
            DenialKind::Overloaded => 503,
            DenialKind::Upstream | DenialKind::Misconfigured => 502,
        }
    }

    /// Whether waiting helps. Against the rest it does not, and the clients would try ten times.
    fn is_transient(self) -> bool {
        matches!(self, DenialKind::RateLimited | DenialKind::Overloaded | DenialKind::Upstream)
    }
}

/// A response that is complete at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainResponse {
    pub status: u16,
    pub content_type: &'static str,
    /// Further headers. The vendors' clients retry some refusals unless they are told not to.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl PlainResponse {
    fn json(status: u16, headers: Vec<(&'static str, String)>, body: &serde_json::Value) -> PlainResponse {
        PlainResponse { status, content_type: "application/json", headers, body: body.to_string().into_bytes() }
    }
}

/// A request that this dialect cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a valid {} request: {why}", .dialect.name())]
pub struct RequestError {
    pub dialect: Dialect,
    pub why: String,
}

impl Dialect {
    /// A refusal as this provider's client expects it.
    pub fn render_error(self, status: u16, kind: DenialKind, message: &str) -> PlainResponse {
        let headers = if kind.is_transient() { Vec::new() } else { vec![("x-should-retry", "false".to_owned())] };
        PlainResponse::json(status, headers, &self.format().error(status, kind, message))
    }

    /// A refusal within a stream that has begun, as the bytes of its last event.
    pub fn render_error_event(self, status: u16, kind: DenialKind, message: &str) -> Vec<u8> {
        let format = self.format();
        format.error_event(&format.error(status, kind, message), message).into_bytes()
    }

    /// The status that this provider gives such a refusal.
    pub fn error_status(self, kind: DenialKind) -> u16 {
        self.format().error_status(kind)
    }

    /// The list of models that a client may ask for.
    pub fn render_models(self, names: &[&str]) -> PlainResponse {
        PlainResponse::json(200, Vec::new(), &self.format().models(names))
    }

    /// The answer to a request that has its tokens counted.
    pub fn render_token_count(self, tokens: u64) -> PlainResponse {
        PlainResponse::json(200, Vec::new(), &self.format().token_count(tokens))
    }
}
