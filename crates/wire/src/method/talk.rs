//! A talk with a brain on its own terminal.
//!
//! While `talk.open` or `talk.watch` runs, the kernel sends [`QUEUED`], [`STARTED`], then what the brain draws as `sandbox.output`, and
//! [`ENDED`]. Who talks sends `sandbox.input`, one at a time, each after a `sandbox.more`, `sandbox.resize`, and [`LEAVE`]. The answer comes
//! last.

use super::sandbox::TerminalSize;
use super::task::TaskStatus;
use serde::{Deserialize, Serialize};
use world::{Mode, TaskId};

/// From the kernel: [`TalkQueuedNote`].
pub const QUEUED: &str = "talk.queued";
/// From the kernel: the brain has its terminal.
pub const STARTED: &str = "talk.started";
/// From the kernel: nothing more is drawn; what was changed is looked at now.
pub const ENDED: &str = "talk.ended";
/// From the client: it leaves, and waits for the answer.
pub const LEAVE: &str = "talk.leave";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TalkOpenParams {
    /// A folder inside the zone.
    pub path: String,
    /// `ask` or `act`.
    pub mode: Mode,
    /// The worker's name; the project's own without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brain: Option<String>,
    pub terminal: TerminalSize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TalkQueuedNote {
    pub task: TaskId,
    /// The worker's name.
    pub worker: String,
    /// What the worker does first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<TaskId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TalkOpenResult {
    pub task: TaskId,
    /// Parked where its changes wait for their merge.
    pub state: TaskStatus,
    /// What is said of it, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TalkWatchParams {
    /// A folder inside the zone.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}
