//! A process: anything that runs under a pid, in one tree under pid 1.

use crate::{Pid, ZoneId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: Pid,
    /// `None` for pid 1 alone.
    pub parent: Option<Pid>,
    /// `worker.1`, `operator`, `kernel`.
    pub name: String,
    pub role: String,
    pub zone: Option<ZoneId>,
    /// The operating-system user it acts for.
    pub user: String,
    pub state: ProcessState,
    pub started_ms: i64,
    /// Calls it made, for the person who looks.
    pub calls_made: u64,
    /// What jobs of it and of those below it did on the network.
    #[serde(default)]
    pub net: NetUse,
    /// The brain that it was enrolled with, by name; `None` has the project's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brain: Option<String>,
    /// It takes no task from its queue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue_paused: bool,
}

/// Traffic through the doors of rooms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetUse {
    /// Connections, each with one request or one tunnel.
    pub requests: u64,
    /// Bytes out of rooms, and into them.
    pub up: u64,
    pub down: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// Waits for a task.
    Idle,
    /// Has a running task.
    Running,
    /// Asked too many questions, or a person paused it.
    Paused,
    /// Ended by itself and not yet collected.
    Zombie,
    /// Was killed.
    Dead,
}

impl ProcessState {
    pub fn alive(self) -> bool {
        !matches!(self, ProcessState::Zombie | ProcessState::Dead)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ProcessState::Idle => "idle",
            ProcessState::Running => "running",
            ProcessState::Paused => "paused",
            ProcessState::Zombie => "zombie",
            ProcessState::Dead => "dead",
        }
    }
}
