//! Sandboxes: templates, what runs, and a command of the operator's with its streams connected.
//!
//! While `sandbox.run` runs, the kernel sends [`OUTPUT`] notes, as fast as the client takes them; the client sends
//! [`INPUT`] notes, one at a time, each after a [`MORE`] note, and [`RESIZE`] notes. The answer comes last.

use serde::{Deserialize, Serialize};
use world::{Pid, TaskId};

/// From the kernel: [`OutputNote`].
pub const OUTPUT: &str = "sandbox.output";
/// From the kernel: it takes another piece of input.
pub const MORE: &str = "sandbox.more";
/// From the client: [`InputNote`].
pub const INPUT: &str = "sandbox.input";
/// From the client: [`TerminalSize`].
pub const RESIZE: &str = "sandbox.resize";

/// Bytes of a stream in one note.
pub const PIECE_BYTES_MAX: usize = 48 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    Out,
    Err,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputNote {
    pub stream: OutputStream,
    /// Base64.
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputNote {
    /// Base64; nothing is the end.
    pub data: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxRunParams {
    /// A folder inside the zone.
    pub path: String,
    pub command: Vec<String>,
    /// A folder of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Drop what it changes.
    #[serde(default)]
    pub discard: bool,
    /// Will the client send input?
    #[serde(default)]
    pub input: bool,
    /// It gets a terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// What its process is called, in place of the program's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its process may spend on models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<world::Budget>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxTemplatesParams {
    /// A folder inside a zone whose `skep.yml` narrows them; without it, as the operator has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxTemplatesResult {
    pub templates: Vec<TemplateView>,
}

/// What a command in a sandbox can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplateNetwork {
    /// Its own loopback.
    None,
    /// The hosts that the policy allows, through the kernel's proxy.
    Restricted,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateView {
    pub name: String,
    pub network: TemplateNetwork,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    pub secrets: bool,
    #[serde(default)]
    pub models: bool,
    /// Without it, half of the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_milli: Option<u32>,
    pub pids: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// For one answer of a child that lives on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_files: Option<u64>,
    pub profile: String,
    /// Who makes its rooms, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxListResult {
    pub rooms: Vec<SandboxView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxView {
    pub task: TaskId,
    pub pid: Pid,
    pub project: String,
    pub paused: bool,
    pub jobs: Vec<JobView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// The system's own number of the room's pid 1.
    pub os_pid: i32,
    pub command: Vec<String>,
    pub age_ms: u64,
    pub memory_bytes: u64,
    pub cpu_ms: u64,
    pub processes: u64,
}
