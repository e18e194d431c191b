//! The journal: read, proven, followed. Records travel as the stored lines, byte for byte, because their hashes are over those bytes.

use serde::{Deserialize, Serialize};
use world::{Pid, TaskId};

/// The note of `journal.follow`: a [`RecordNote`].
pub const RECORD: &str = "journal.record";

/// All that is given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordFilter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_seq: Option<u64>,
    /// Records in one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Any of these; any at all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// At this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
    /// Newest first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverse: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalDoubtsResult {
    pub doubts: Vec<DoubtView>,
    /// How far the verification after this kernel's start has come.
    pub verification: VerificationStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoubtView {
    pub number: u64,
    pub what: String,
    pub why: String,
    pub at_ms: i64,
    /// Who has looked at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_by: Option<String>,
}

/// The verification of the whole chain that every start begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationStatus {
    #[default]
    Running,
    /// It found nothing.
    Whole,
    /// It found something; the doubts say what.
    Doubted,
    /// It did not come to its end; the doubts say why.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalAcknowledgeParams {
    pub upto: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalForgetParams {
    #[serde(default)]
    pub blobs: Vec<String>,
    /// Records whose blobs are forgotten.
    #[serde(default)]
    pub records: Vec<u64>,
    #[serde(default)]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalForgetResult {
    /// The names of the blobs that nobody can read any more.
    pub forgotten: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalReadResult {
    /// Stored lines without their line break.
    pub records: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordNote {
    pub line: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalVerifyResult {
    pub records: u64,
    pub head_seq: u64,
    pub head_hash: String,
    /// Records after the newest seal.
    pub unsealed: u64,
    /// A seal is there, its signature is good and it fits the chain.
    pub sealed: bool,
    /// Empty when all is well.
    pub findings: Vec<FindingView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    pub what: String,
    pub why: String,
}
