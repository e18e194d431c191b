//! A process: anything that runs under a pid, in one tree under pid 1.

use crate::{BlockReason, Pid, ProcessExit, ProcessRole, Program, ProgramLimits, ProgramRun, Tier, ZoneId};
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
    /// What every prompt of it ends with, whatever its brain sums up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// What it runs; `None` for workers, jobs, the operator and the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<Program>>,
    /// What is known of its program's starts; there with a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<ProgramRun>>,
    /// What it waits for while it is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_on: Option<BlockReason>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Box<ProcessExit>>,
    /// Those who were above it and are gone, the nearest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_parents: Vec<Pid>,
    /// In whose name its first task or its schedule is to be queued, until that is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owes_first_to: Option<Pid>,
}

impl Process {
    /// Its role in the tree. The kernel has the kernel's.
    pub fn tree_role(&self) -> Option<ProcessRole> {
        if self.pid == Pid::KERNEL { Some(ProcessRole::Kernel) } else { self.program.as_ref().map(|program| program.role) }
    }

    /// Its tier. The kernel and the operator may have everything.
    pub fn tree_tier(&self) -> Option<Tier> {
        if self.pid == Pid::KERNEL || self.pid == Pid::OPERATOR {
            return Some(Tier::Strategic);
        }
        self.program.as_ref().map(|program| program.tier)
    }

    pub fn limits(&self) -> Option<&ProgramLimits> {
        self.program.as_ref().map(|program| &program.limits)
    }

    /// The incarnation that messages are handed to: 0 where nothing runs.
    pub fn incarnation(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| run.incarnation)
    }
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
    /// Waits for a person, a budget, a child or its next start.
    Blocked,
    /// Waits for its next run.
    Sleeping,
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
            ProcessState::Blocked => "blocked",
            ProcessState::Sleeping => "sleeping",
            ProcessState::Zombie => "zombie",
            ProcessState::Dead => "dead",
        }
    }
}
