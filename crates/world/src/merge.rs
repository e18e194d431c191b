//! A merge: the way of one task's changes into the project.

use crate::{MergeId, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Paths and folders that a person let in; all without any.
    #[serde(default)]
    pub only: Vec<String>,
    /// The commit that is to be made of it.
    #[serde(default)]
    pub commit: Option<CommitWish>,
    /// The commit that was prepared, or made.
    #[serde(default)]
    pub prepared: Option<PreparedCommit>,
    /// Blob with what each path held before and holds after; known once the merge has started.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// Paths that an undo left as they were; the next goes on with them. Empty before the first, and when all are taken back.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left: BTreeSet<String>,
}

impl Merge {
    /// Did it go into the work tree? One that was made a commit on another branch did not.
    pub fn is_in_tree(&self) -> bool {
        self.state == MergeState::Applied && self.commit.as_ref().is_none_or(|wish| wish.branch.is_none())
    }

    /// Did an undo leave paths of it as they were?
    pub fn is_partly_undone(&self) -> bool {
        self.state == MergeState::Undone && !self.left.is_empty()
    }
}

/// The commit that a person wants of a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitWish {
    /// Only on this branch, and the work tree is left alone; without it, on HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub message: String,
    /// Whose commit it is.
    pub name: String,
    pub email: String,
    /// As git writes it: `+0200`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
}

/// A commit whose objects are in the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedCommit {
    pub commit: String,
    pub parent: Option<String>,
    /// `HEAD`, or `refs/heads/…`.
    pub reference: String,
    /// The reference leads to it.
    pub is_made: bool,
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

/// What a task did to one path, or what a merge makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub enum PathChange {
    Created,
    Modified,
    Deleted,
    Renamed,
    /// Only its mode changed.
    Mode,
    /// A symbolic link was made or changed.
    Symlink,
    /// The project changed it too, and both texts were merged.
    Merged,
    /// The project changed it too, and the texts could not be merged.
    Conflict,
    /// It never goes in, whatever it holds.
    Refused,
    /// A word that this version does not know.
    Unknown,
}

impl PathChange {
    const ALL: [PathChange; 9] = [
        PathChange::Created,
        PathChange::Modified,
        PathChange::Deleted,
        PathChange::Renamed,
        PathChange::Mode,
        PathChange::Symlink,
        PathChange::Merged,
        PathChange::Conflict,
        PathChange::Refused,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            PathChange::Created => "created",
            PathChange::Modified => "modified",
            PathChange::Deleted => "deleted",
            PathChange::Renamed => "renamed",
            PathChange::Mode => "mode",
            PathChange::Symlink => "symlink",
            PathChange::Merged => "merged",
            PathChange::Conflict => "conflict",
            PathChange::Refused => "refused",
            PathChange::Unknown => "unknown",
        }
    }
}

impl From<String> for PathChange {
    fn from(word: String) -> PathChange {
        PathChange::ALL.into_iter().find(|change| change.as_str() == word).unwrap_or(PathChange::Unknown)
    }
}

impl From<PathChange> for &'static str {
    fn from(change: PathChange) -> &'static str {
        change.as_str()
    }
}

impl std::fmt::Display for PathChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a path stays out that a person did not name.
pub const NOT_CHOSEN: &str = "not chosen";

/// What became of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergePath {
    pub path: String,
    pub kind: PathChange,
    /// What a renamed path was called before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why it was left out; `None` when it goes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
