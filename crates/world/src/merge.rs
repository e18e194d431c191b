//! A merge: the way of one task's changes into the project.

use crate::{MergeId, TaskId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    pub id: MergeId,
    pub task: TaskId,
    /// Hash over changes, base, HEAD and policy version; the answer binds to it.
    pub digest: String,
    /// Blob with the frozen changes.
    pub frozen: String,
    pub state: MergeState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeState {
    Proposed,
    /// Approved; files are being renamed into place. A boot that finds this finishes the rest.
    Applying,
    Applied,
    Rejected,
}

/// What became of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergePath {
    pub path: String,
    /// `created`, `modified`, `deleted`, `mode`, `symlink`.
    pub kind: String,
    /// Why it was left out; `None` when it goes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
