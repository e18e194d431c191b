//! A task: a piece of work with a state.

use crate::{MergeId, Pid, ReviewId, TaskId, UsedRoom, ZoneId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    /// The process that does it.
    pub pid: Pid,
    pub zone: ZoneId,
    pub mode: Mode,
    pub prompt: String,
    /// Name of the prompt in the vault, where the record has it without its secrets.
    #[serde(default)]
    pub original: Option<String>,
    /// Which mind does it: `script:FILE`, later a vendor's name. Empty for an operator's call.
    pub brain: String,
    /// Higher first; equal ones in the order they came.
    pub priority: i64,
    pub queued_ms: i64,
    pub ended_ms: Option<i64>,
    pub state: TaskState,
    /// How often a brain was started on it: more than one after a crash.
    pub episodes: u32,
    /// Calls it may still make; `None` is no limit.
    pub calls_left: Option<u64>,
    /// Calls that have their outcome. A scripted brain resumes behind them.
    pub calls_settled: u64,
    /// Bytes of its calls' outputs that are kept as blobs.
    pub blob_bytes: u64,
    /// Binds of calls that changed something and were lost in a crash: asked again, they go to a person.
    pub lost: Vec<String>,
    /// Blobs with what its brain gave to be kept, oldest first.
    #[serde(default)]
    pub memory: Vec<String>,
    /// Where its traffic with models is recorded: a file under `cassettes/`.
    #[serde(default)]
    pub cassette: Option<String>,
    /// The task that it is a replay of.
    #[serde(default)]
    pub replays: Option<TaskId>,
    /// As a replay it was compared with that task, and what came of it is on record.
    #[serde(default)]
    pub compared: bool,
    /// What the operator called its caller, for rules about `caller_tag`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The rooms that its jobs had, as rules see them.
    #[serde(default)]
    pub rooms: BTreeSet<UsedRoom>,
    /// A job of it ran in a room that no record names: one from before rooms were written down.
    #[serde(default = "unknown")]
    pub in_unknown_room: bool,
    /// What it writes is dropped at its end, whatever end that is.
    #[serde(default)]
    pub discard: bool,
    pub workspace: Option<TaskWorkspace>,
    pub merge: Option<MergeId>,
    /// What the brain said at the end, or why it failed.
    pub summary: Option<String>,
}

/// Of a task in a snapshot that does not say.
fn unknown() -> bool {
    true
}

/// May the work change anything?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Read and answer; nothing merges.
    Ask,
    /// Change files; the changes wait for their merge.
    Act,
    /// One call of the operator's own.
    Call,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Ask => "ask",
            Mode::Act => "act",
            Mode::Call => "call",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum TaskState {
    Queued,
    Running,
    /// Waits for a person; the process is free for nothing else in this zone.
    Parked {
        review: ReviewId,
    },
    Done,
    Failed,
    Cancelled,
}

impl TaskState {
    pub fn ended(self) -> bool {
        matches!(self, TaskState::Done | TaskState::Failed | TaskState::Cancelled)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Queued => "queued",
            TaskState::Running => "running",
            TaskState::Parked { .. } => "parked",
            TaskState::Done => "done",
            TaskState::Failed => "failed",
            TaskState::Cancelled => "cancelled",
        }
    }
}

/// What a project held when a workspace was opened over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The commit that says what unnamed files held.
    pub head: Option<String>,
    /// Names the files that were not as it has them.
    pub blob: String,
    /// When the look was over: a file that was changed between the opening and this has no base.
    pub until_us: i64,
}

/// Where a task's writes go, and what they are measured against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWorkspace {
    /// The commit the project stood at, if it had one.
    pub head: Option<String>,
    /// When it was opened, by the clock that stamps files.
    pub since_us: i64,
    /// Not known until the project has been looked through.
    #[serde(default)]
    pub base: Option<Base>,
    /// Nothing runs in its room until a person says so.
    #[serde(default)]
    pub paused: bool,
}
