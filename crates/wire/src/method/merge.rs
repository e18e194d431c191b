//! Merges: what was proposed, what went in, and the way back.

use serde::{Deserialize, Serialize};
use world::{MergeId, MergePath, MergeState, TaskId};

/// The tool under which a merge as a whole is decided and reviewed.
pub const APPLY_TOOL: &str = "merge.apply";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeListResult {
    pub merges: Vec<MergeView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeView {
    pub merge: MergeId,
    pub task: TaskId,
    pub state: MergeState,
    /// Rejected by nobody: a newer proposal of its task takes its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    /// Names exactly these changes.
    pub digest: String,
    pub summary: String,
    /// Paths that go or went in, or were taken back.
    pub files: u64,
    /// Paths that stay out, or that an undo left alone.
    pub left: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeUndoParams {
    pub task: TaskId,
    /// Passes over what denies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeUndoResult {
    pub restored: Vec<String>,
    pub refused: Vec<MergePath>,
    /// Why nothing happened: this denies it, unless the phrase is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
    /// A commit of the merge, which stays: only files were taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}
