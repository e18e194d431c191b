//! Trouble that goes up the tree until somebody deals with it.
//!
//! **Invariant.** An open escalation is with exactly one process that is alive, or with a person.

use crate::{EscalationId, Pid, ReviewId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    pub id: EscalationId,
    /// Who raised it.
    pub from: Pid,
    /// Whose turn it is.
    pub at: Pid,
    pub issue: String,
    pub severity: Severity,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
    /// Whoever cannot deal with it need not say so: it goes on by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto: bool,
    /// Who had it and passed it on, first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_by: Vec<Pid>,
    /// The question to the person, when it came to the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewId>,
    pub raised_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled: Option<EscalationAnswer>,
}

/// Who dealt with it, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationAnswer {
    pub by: Pid,
    pub response: String,
    pub at_ms: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Info,
    #[default]
    Warning,
    Error,
    Critical,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Critical => "critical",
        }
    }
}
