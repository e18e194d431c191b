//! A commit that a merge made, held against the journal: what is known of the commit, and what came of the checks.

use crate::TaskId;
use serde::{Deserialize, Serialize};

/// A commit as git has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitFacts {
    /// Its full id.
    pub commit: String,
    /// The commit object: tree, parents, author and message, as git stores it.
    pub object: String,
    /// Paths that it changes against its first parent.
    pub changes: Vec<CommitChange>,
}

/// One path of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitChange {
    pub path: String,
    /// As git writes it: `100644`; `000000` where the commit removes it.
    pub mode: String,
    /// The same in its first parent; `000000` where that has no such path.
    pub mode_before: String,
    /// Git's name of the content.
    pub name: String,
}

/// What the checks of a commit say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitVerdict {
    /// It is the commit that the kernel made.
    Verified,
    /// It changes exactly what the merge recorded, and is another commit: rebased, amended or picked.
    Rewritten,
    /// Something about it is not as the journal has it.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    Holds,
    Fails,
    Unchecked,
}

/// One check of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitCheck {
    pub name: String,
    pub outcome: CheckOutcome,
    pub why: String,
}

/// What became of a commit's checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitReport {
    pub commit: String,
    pub verdict: CommitVerdict,
    /// The task whose merge it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The commit that the kernel made of that merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    pub checks: Vec<CommitCheck>,
}
