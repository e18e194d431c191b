//! A call on its way: admitted, and without an outcome yet.

use crate::{CallId, Pid, TaskId};
use serde::{Deserialize, Serialize};

/// Who does what a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hands {
    /// The door runs the tool.
    Kernel,
    /// The brain acts itself inside its room; the admission is the answer and its report settles the call.
    Caller,
}

/// The room of a job, as rules see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UsedRoom {
    pub template: String,
    /// What it reaches: `none` or `restricted`.
    pub network: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    pub pid: Pid,
    pub task: Option<TaskId>,
    pub tool: String,
    pub hands: Hands,
    /// Hash of the exact call, to know it again when it is asked for a second time.
    pub bind: String,
    /// The call that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<CallId>,
    /// A lost read may be asked again; anything else goes to review.
    pub read_only: bool,
    /// It is a step of a session's plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_step: bool,
    /// When it was let in; 0 in a snapshot that does not say.
    #[serde(default)]
    pub admitted_ms: i64,
}

impl OpenCall {
    /// How long it has been open.
    pub fn open_ms(&self, now_ms: i64) -> u64 {
        if self.admitted_ms == 0 { 0 } else { u64::try_from(now_ms.saturating_sub(self.admitted_ms)).unwrap_or(0) }
    }
}
