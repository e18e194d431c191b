//! The process tree.

use crate::method::program::ProgramView;
use serde::{Deserialize, Serialize};
use world::{NetUse, Pid, ProcessState, TaskId, ZoneId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcCancelParams {
    pub pid: Pid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcListResult {
    pub processes: Vec<ProcView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcView {
    pub pid: Pid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Pid>,
    pub name: String,
    pub role: String,
    /// The operating-system user it acts for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneId>,
    /// Its repository and branch, for people: `myrepo@main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    pub state: ProcessState,
    pub calls_made: u64,
    /// `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_left: Option<u64>,
    /// The task it is on, running or parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub started_ms: i64,
    /// What its jobs did on the network.
    #[serde(default)]
    pub net: NetUse,
    /// The brain that it was enrolled with; `None` has the project's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brain: Option<String>,
    /// It takes nothing from its queue until it is told to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue_paused: bool,
    /// Its brain kept that it has no conversation to go on with: each turn begins anew. Only `zone.status` tells.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_afresh: bool,
    /// What it runs; workers, jobs, the operator and the kernel have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<ProgramView>>,
    /// Tokens that it used itself.
    #[serde(default)]
    pub tokens: u64,
    /// The model that it asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it and everything below it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caps: Vec<CapView>,
}

/// What may be used under one cap, and what is spent, reserved or held of it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapView {
    /// A cap by its name: `money`, `tokens`, `tactical tokens a day`.
    pub what: String,
    /// Tokens, or millionths of a dollar.
    pub used: u64,
    pub cap: u64,
}

impl ProcView {
    /// The role as people read it.
    pub fn role_shown(&self) -> &str {
        if self.role == "foreman" { "worker" } else { &self.role }
    }
}
