//! What is under way right now.

use serde::{Deserialize, Serialize};
use world::{CallId, TaskId};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkListParams {
    /// Only what is done for this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkListResult {
    pub calls: Vec<RunningCallView>,
    pub works: Vec<LongWorkView>,
}

/// A call that is being carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCallView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub call: CallId,
    pub ms: u64,
    /// The last lines of its command's output so far, without secrets.
    pub lines: Vec<String>,
}

/// Long work with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongWorkView {
    pub what: LongWorkKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Files, or records of the journal.
    pub done: u64,
    /// `None` where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    pub ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LongWorkKind {
    RecordingBase,
    Freezing,
    Merging,
    Undoing,
    Verifying,
}
