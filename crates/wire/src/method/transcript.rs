//! Transcripts: what workers wrote, line by line. Clean of control characters and of secrets, whoever asks.

use super::task::TaskStatus;
use serde::{Deserialize, Serialize};
use world::{Pid, TaskId, ZoneId};

/// Which transcripts. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptListParams {
    /// A folder inside a zone: its tasks alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A worker's name, with `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptListResult {
    /// Newest first.
    pub transcripts: Vec<TranscriptView>,
}

/// What is kept of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptView {
    pub task: TaskId,
    pub worker: String,
    pub zone: ZoneId,
    pub branch: String,
    pub brain: String,
    pub prompt: String,
    pub state: TaskStatus,
    pub queued_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    /// What a vendor's client wrote, beside what the journal itself says.
    pub lines: u64,
    pub bytes: u64,
    pub talks: u64,
    /// False where what the client wrote is kept no longer.
    pub whole: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptReadParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// A folder inside a zone: its tasks alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A worker's name, with `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Lines behind this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// Lines that have this text, in letters of either size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptReadResult {
    /// Oldest first, about a megabyte at most.
    pub lines: Vec<TranscriptLineView>,
    /// Where to go on; `None` at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_seq: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptLineView {
    pub seq: u64,
    pub at_ms: i64,
    pub task: TaskId,
    pub pid: Pid,
    pub worker: String,
    /// `prompt`, `brain`, `client`, `call`, `output`, `refused`, `talk` or `end`.
    pub speaker: String,
    pub text: String,
}
