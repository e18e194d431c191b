//! Tasks, from the queue to the merge.

use super::model::WaitView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use world::{MergePath, MergeState, Mode, PathChange, Pid, ReviewId, Side, TaskId, TaskState, ZoneId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskAddParams {
    /// A folder inside the zone. A zone that is not there yet is opened.
    pub path: String,
    /// `ask` or `act`.
    pub mode: Mode,
    pub prompt: String,
    /// `script:FILE` with an absolute path, or a name; the zone's default without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brain: Option<String>,
    /// Higher first, 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Calls the process may make from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_max: Option<u64>,
    /// Take its traffic with models down on a cassette.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub record: bool,
    /// What kind of caller its process is meanwhile, for rules about `caller_tag`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAddResult {
    pub task: TaskId,
    /// Name of the process that will do it.
    pub process: String,
    pub branch: String,
    /// The zone was opened on the way.
    pub initialised: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskListParams {
    /// Only the zone that holds this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskListResult {
    pub tasks: Vec<TaskView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskIdParams {
    pub task: TaskId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskAwaitParams {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Queued,
    Running,
    /// Waits for a person; the view names the review.
    Parked,
    Done,
    Failed,
    Cancelled,
}

impl TaskStatus {
    pub fn ended(self) -> bool {
        matches!(self, TaskStatus::Done | TaskStatus::Failed | TaskStatus::Cancelled)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Queued => "queued",
            TaskStatus::Running => "running",
            TaskStatus::Parked => "parked",
            TaskStatus::Done => "done",
            TaskStatus::Failed => "failed",
            TaskStatus::Cancelled => "cancelled",
        }
    }
}

impl From<TaskState> for TaskStatus {
    fn from(state: TaskState) -> TaskStatus {
        match state {
            TaskState::Queued => TaskStatus::Queued,
            TaskState::Running => TaskStatus::Running,
            TaskState::Parked { .. } => TaskStatus::Parked,
            TaskState::Done => TaskStatus::Done,
            TaskState::Failed => TaskStatus::Failed,
            TaskState::Cancelled => TaskStatus::Cancelled,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    pub task: TaskId,
    pub pid: Pid,
    /// Name of that process.
    pub process: String,
    pub zone: ZoneId,
    pub branch: String,
    pub mode: Mode,
    pub prompt: String,
    pub brain: String,
    pub state: TaskStatus,
    /// The question it is parked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewId>,
    /// How far its changes are; `None` when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeState>,
    /// What the brain said at the end, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    pub queued_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    pub episodes: u32,
    /// Calls that have their outcome.
    pub calls: u64,
    /// More of a budget, if its model waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitView>,
    /// The task that it is run to be compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replays: Option<TaskId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDiffResult {
    pub task: TaskId,
    /// Names exactly these changes; `task.merge` with it refuses any others. `None` when nothing is proposed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// `None` while the task still works and nothing is proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<MergeState>,
    pub files: Vec<FileDiffView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiffView {
    pub path: String,
    pub kind: PathChange,
    /// What a renamed path was called before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why a person should look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why a merge would leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Unified diff, or a line that says why there is none (binary, too large).
    pub diff: String,
    /// Lines; of a file that is not shown, all it has.
    #[serde(default)]
    pub added: u64,
    #[serde(default)]
    pub removed: u64,
    /// `diff` does not show what changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unshown: bool,
}

/// All changes as a patch for git, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPatchParams {
    pub task: TaskId,
    #[serde(default)]
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPatchResult {
    /// Of the whole patch.
    pub bytes: u64,
    /// SHA-256 of the whole patch: pieces with another one are of another patch.
    pub digest: String,
    /// This piece, in base 64.
    pub data: String,
}

/// One changed file, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFileParams {
    pub task: TaskId,
    pub path: String,
    /// As it was, not as it shall be.
    #[serde(default)]
    pub before: bool,
    #[serde(default)]
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFileResult {
    /// All of it.
    pub bytes: u64,
    /// Base64 of the piece at `offset`; empty behind the end.
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskMergeParams {
    pub task: TaskId,
    /// What the person was shown, as `task.diff` names it. Without it nothing is merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whose version is taken of a path that both changed; one without a choice stays out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sides: BTreeMap<String, Side>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskMergeResult {
    pub applied: Vec<String>,
    pub refused: Vec<MergePath>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRejectParams {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskReplayParams {
    pub task: TaskId,
    /// With the pauses that were recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReplayResult {
    /// The replay, a task of its own.
    pub task: TaskId,
    pub of: TaskId,
    pub calls: u64,
    pub requests: u64,
    /// What differed first; `None` when nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<DivergenceView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DivergenceView {
    /// `call 3`, `request 2`, `changes` or `end`.
    pub at: String,
    pub recorded: Vec<String>,
    pub replayed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskTryParams {
    pub task: TaskId,
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortForward>,
}

/// A port of the host's loopback that leads to one of the room's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortForward {
    pub here: std::num::NonZeroU16,
    pub there: std::num::NonZeroU16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTryResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}
