//! A merge: the way of one task's changes into the project.

use crate::{MergeId, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    pub id: MergeId,
    pub task: TaskId,
    /// Hash over changes, base, HEAD and policy version; the answer binds to it.
    pub digest: String,
    /// Blob with the frozen changes.
    pub frozen: String,
    pub state: MergeState,
    /// Whose version a person chose where both had changed a path.
    #[serde(default)]
    pub sides: BTreeMap<String, Side>,
    /// Blob with what each path held before and holds after; known once the merge has started.
    #[serde(default)]
    pub snapshot: Option<String>,
}

/// One of two versions of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// What the project holds stays.
    Mine,
    /// The task's version goes in.
    Theirs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeState {
    Proposed,
    /// Approved; files are being renamed into place. A boot that finds this finishes the rest.
    Applying,
    Applied,
    Rejected,
    /// Being taken back; a boot that finds this finishes the rest.
    Undoing,
    Undone,
}

/// What became of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergePath {
    pub path: String,
    /// `created`, `modified`, `deleted`, `renamed`, `mode`, `symlink`, `merged`, `conflict`, `refused`.
    pub kind: String,
    /// What a renamed path was called before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why it was left out; `None` when it goes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
