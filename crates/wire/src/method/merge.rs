//! Merges: what was proposed, what went in, and the way back.

use super::methods;
use super::task::TaskParams;
use serde::{Deserialize, Serialize};
use world::{MergeId, MergePath, MergeState, TaskId};

methods! {
    List = "merge.list" (super::Nothing) -> ListResult;
    /// Takes a task's merge back, path by path; what was edited since stays and is named.
    Undo = "merge.undo" (TaskParams) -> UndoResult, wait None;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListResult {
    pub merges: Vec<MergeView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeView {
    pub merge: MergeId,
    pub task: TaskId,
    pub state: MergeState,
    /// Names exactly these changes.
    pub digest: String,
    pub summary: String,
    /// Paths that go or went in.
    pub files: u64,
    /// Paths that stay out.
    pub left: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoResult {
    pub restored: Vec<String>,
    pub refused: Vec<MergePath>,
}
