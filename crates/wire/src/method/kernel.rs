//! The kernel itself.

use serde::{Deserialize, Serialize};
use world::{Remedy, ReviewId};

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
    /// Why the operator's own files are not in force as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings_rejected: Option<String>,
    /// Where the process tree is served over gRPC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grpc: Vec<String>,
}

/// How `config.yml` and `prices.yaml` in the home stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsView {
    /// Why they are not in force as they are: what was in force stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// `policy.yaml` is another than the operator's own policy in force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub policy_drifts: bool,
    /// What was changed and is in force now; told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
}

/// What every command tells beside its own result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelNoticesResult {
    /// What verification found and nobody has looked at.
    pub doubts: Vec<super::journal::DoubtView>,
    /// The last kernel ended without notice. Told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<CrashView>,
    /// How the operator's own files stand, where there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SettingsView>,
    /// The disk is so full that brains wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disk_full: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashView {
    /// When its last record was written.
    pub at_ms: i64,
    /// Calls that it left in the middle.
    pub calls: u64,
    /// Questions about them that are open.
    pub reviews: Vec<ReviewId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelDoctorResult {
    pub checks: Vec<HostCheck>,
    /// Toolchains of whoever started the kernel that lie outside the system's folders.
    #[serde(default)]
    pub toolchains: Vec<HostToolchain>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostToolchain {
    /// `rust`, `node`, `python`, `go` or `java`.
    pub ecosystem: String,
    /// Such as `rustup` or `nvm`.
    pub name: String,
    pub path: String,
    /// Versions, or what is shared of it.
    pub detail: String,
    /// Whether sandboxes see it.
    pub shown: bool,
    /// Paths of it that no sandbox sees, each with its reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<UnseenPath>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnseenPath {
    pub path: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCheck {
    /// What it belongs to; empty for the host itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub section: String,
    pub name: String,
    pub ok: bool,
    /// It is missing, and nothing needs it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    pub detail: String,
    /// The change of the host that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}
