//! The kernel itself.

use serde::{Deserialize, Serialize};
use world::Remedy;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelStatusResult {
    pub version: String,
    pub os_pid: u32,
    pub home: String,
    pub started_ms: i64,
    /// Number of the newest record.
    pub head_seq: u64,
    pub rss_bytes: u64,
    pub processes: u64,
    pub tasks_queued: u64,
    pub tasks_running: u64,
    pub tasks_parked: u64,
    pub reviews_open: u64,
    /// What verification found wrong and nobody has looked at yet; see `journal.doubts`.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// The disk is so full that brains wait.
    #[serde(default)]
    pub disk_full: bool,
    #[serde(default)]
    pub verification: super::journal::VerificationStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelDoctorResult {
    pub checks: Vec<HostCheck>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCheck {
    pub name: String,
    pub ok: bool,
    pub detail: String,
    /// The change of the host that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}
