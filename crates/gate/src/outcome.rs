//! What came of a call, as whoever made it is told.

use crate::GateDecision;
use serde_json::Value;
use std::time::{Duration, Instant};
use world::{CallId, Refusal};

/// What came of a call.
#[derive(Clone, Debug)]
pub struct CallOutcome {
    /// `None` while a person is being asked.
    pub call: Option<CallId>,
    /// The rules that spoke.
    pub rules: Vec<String>,
    pub end: CallEnd,
    /// Time from the request to the decision, and from there to the end.
    pub gate: Duration,
    pub run: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CallEnd {
    /// The tool ran; `ok` is its own word for success.
    Done {
        ok: bool,
        value: Value,
    },
    /// The caller may act with its own hands.
    CallerExecutes,
    Refused(Refusal),
    /// A person must answer first; ask again then.
    Pending(Refusal),
}

impl CallOutcome {
    /// The end of a call that was not admitted.
    pub fn not_admitted(admission: GateDecision, start: Instant) -> CallOutcome {
        let (call, end, rules) = match admission {
            GateDecision::Refused { call, refusal, rules } => (Some(call), CallEnd::Refused(refusal), rules),
            GateDecision::Pending { refusal, rules } => (None, CallEnd::Pending(refusal), rules),
            GateDecision::Admitted { permit, rules } => (Some(permit.call), CallEnd::CallerExecutes, rules),
        };
        CallOutcome { call, rules, end, gate: start.elapsed(), run: Duration::ZERO }
    }
}
