//! Leave to make calls, and the questions that lead to it.

use crate::{GrantId, Pid, ReviewId, TaskId};
use serde::{Deserialize, Serialize};

/// A grant answers `require_review` for exactly what it names, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    /// The process it was given to.
    pub pid: Pid,
    pub task: Option<TaskId>,
    pub tool: String,
    /// Hash of session, task, tool and canonical input: the exact call that a person saw.
    pub bind: String,
    pub uses_left: u32,
}

/// One question to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub id: ReviewId,
    pub pid: Pid,
    pub task: Option<TaskId>,
    pub tool: String,
    /// Redacted: what the reviewer is shown.
    pub input: serde_json::Value,
    pub bind: String,
    /// One for each rule that asked.
    pub reasons: Vec<String>,
    pub asked_ms: i64,
    pub state: ReviewState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ReviewState {
    Open,
    Answered {
        answer: Answer,
        by: String,
        reason: Option<String>,
    },
    /// The task ended before anyone answered.
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Allow,
    Deny,
}
