//! Processes that run a program of their own: starting, directing and ending them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use world::{
    BlockReason, Budget, EndReason, ExecuteResult, Pid, ProcessExit, ProcessRole, ProcessState, ProgramLimits, ProgramRuntime,
    ProgramSchedule, Tier, TreeSignal,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcSpawnParams {
    pub name: String,
    pub role: ProcessRole,
    pub tier: Tier,
    /// Whose child it is; the kernel's without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Pid>,
    /// The tier's own without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system_prompt: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(default)]
    pub limits: ProgramLimits,
    /// What of its parent's account is set aside for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    #[serde(default)]
    pub runtime: ProgramRuntime,
    /// `module:Class`, or the path of a program; nothing runs without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_task: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ProgramSchedule>,
    /// For whom it acts; its parent's without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// It runs in a sandbox.
    #[serde(default = "yes")]
    pub confined: bool,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcSpawnResult {
    pub pid: Pid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcKillParams {
    pub pid: Pid,
    /// Its descendants too. Without this they go to its parent.
    #[serde(default)]
    pub recursive: bool,
    #[serde(default)]
    pub reason: EndReason,
    /// How long programs have to end by themselves.
    #[serde(default)]
    pub grace_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcKillResult {
    /// Those that ended, the last one first.
    pub ended: Vec<Pid>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcSignalParams {
    pub pid: Pid,
    pub signal: TreeSignal,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcWaitParams {
    pub pid: Pid,
    /// As long as it takes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcWaitResult {
    pub pid: Pid,
    pub exit: ProcessExit,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcExecuteParams {
    pub pid: Pid,
    pub description: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcExecuteResult {
    pub pid: Pid,
    pub result: ExecuteResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcInfoParams {
    pub pid: Pid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcChildrenParams {
    /// Whose; the caller's own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
    /// Theirs too.
    #[serde(default)]
    pub recursive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProcessState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcNiceParams {
    pub pid: Pid,
    /// Higher goes first.
    pub priority: i64,
}

/// What a process runs, and how that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramView {
    pub role: ProcessRole,
    pub tier: Tier,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The machine that it runs on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    pub runtime: ProgramRuntime,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// It runs in a sandbox.
    pub confined: bool,
    /// How often it was started.
    pub incarnation: u64,
    /// Its program runs.
    pub is_up: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_pid: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Tokens that it has used, with those that it claims.
    pub tokens: u64,
    /// Of these, tokens that only it says it used.
    #[serde(default)]
    pub tokens_claimed: u64,
    /// How full its context is, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_permille: Option<u32>,
    pub limits: ProgramLimits,
    /// Memory that it and everything below it use now, where that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_on: Option<BlockReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProcessExit>,
    /// The last lines of its error output, when it crashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}
