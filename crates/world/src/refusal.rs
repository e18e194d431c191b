//! A refusal: the system works and says no.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The closed list of reasons for a no. `wire` maps each to JSON-RPC and exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Policy says no, or nothing says yes.
    Denied,
    /// A person must answer first; the review is open.
    Pending,
    /// A budget, rate or queue is used up.
    Exhausted,
    /// The input does not fit the tool.
    BadInput,
    /// Something named does not exist.
    NotFound,
    /// The thing exists and is in the wrong state for this.
    WrongState,
    /// Over a size or count limit.
    TooLarge,
    /// The project's own policy files wait for the operator's trust.
    Untrusted,
    /// This host cannot do it safely.
    Unsupported,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Denied => "denied",
            Code::Pending => "pending",
            Code::Exhausted => "exhausted",
            Code::BadInput => "bad_input",
            Code::NotFound => "not_found",
            Code::WrongState => "wrong_state",
            Code::TooLarge => "too_large",
            Code::Untrusted => "untrusted",
            Code::Unsupported => "unsupported",
        }
    }
}

/// A no with its reason and, where there is one, the way to a yes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: Code,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The review that waits for an answer, with [`Code::Pending`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<crate::ReviewId>,
}

impl Refusal {
    pub fn new(code: Code, reason: impl Into<String>) -> Self {
        Refusal { code, reason: reason.into(), hint: None, review: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
