//! Notices a model that goes round in circles.
//!
//! A round is the calls of one answer with what came of them. It brings nothing new when the same round is among the few before it; so a
//! circle is noticed whatever its shape, as long as it is short. **Invariant.** One round that is new, and the count begins again: who
//! waits for something that changes, or comes back to a file after an edit, is left alone.

use super::context::clip;
use crate::{CallResult, ToolCall};
use serde_json::Value;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// How far back a round is looked for, and with it the longest circle that is noticed.
const CIRCLE_MAX: usize = 8;
/// Bytes of a call that are told.
const CALL_BYTES: usize = 80;
/// Calls of a circle that are told.
const CALLS_TOLD: usize = 3;

#[derive(Default)]
pub struct LoopGuard {
    /// Digest and first call of the last rounds, newest last.
    last: VecDeque<(u64, String)>,
    stale: u32,
    keys: RandomState,
}

impl LoopGuard {
    /// Takes in a round, and says how many in a row brought nothing new.
    pub fn add(&mut self, calls: &[ToolCall], ends: &[CallResult]) -> u32 {
        let ends: Vec<CallResult> = ends.iter().cloned().map(timeless).collect();
        let digest = self.keys.hash_one(format!("{calls:?} {ends:?}"));
        let known = self.last.iter().any(|(known, _)| *known == digest);
        self.stale = if known { self.stale + 1 } else { 0 };
        if self.last.len() == CIRCLE_MAX {
            self.last.pop_front();
        }
        let call = calls.first().map_or_else(String::new, |call| format!("{} {}", call.tool, call.input));
        self.last.push_back((digest, clip(&call, CALL_BYTES).to_owned()));
        self.stale
    }

    /// The calls that come again and again, for a person to read.
    pub fn circle(&self) -> String {
        let mut calls: Vec<&str> = Vec::new();
        for (_, call) in &self.last {
            if !calls.contains(&call.as_str()) {
                calls.push(call);
            }
        }
        let more = calls.len().saturating_sub(CALLS_TOLD);
        calls.truncate(CALLS_TOLD);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", calls.join(", "))
    }
}

/// What came of a call, without how long it took: a command is never equally fast twice.
fn timeless(end: CallResult) -> CallResult {
    match end {
        CallResult::Output { ok, value: Value::Object(mut fields) } => {
            fields.remove("ms");
            CallResult::Output { ok, value: Value::Object(fields) }
        }
        other => other,
    }
}
