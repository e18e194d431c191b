//! Zones: git worktrees and the policy in force there.

use super::process::ProcView;
use super::task::TaskView;
use serde::{Deserialize, Serialize};
use world::ZoneId;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneInitParams {
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneInitResult {
    pub zone: ZoneId,
    pub path: String,
    pub branch: String,
    /// Files that were written, relative to the zone.
    pub created: Vec<String>,
    /// The process that works here; `None` until the policy is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// 0 until something is in force.
    pub policy_version: u64,
    /// False while the repository's own files await `zone.trust`.
    pub ready: bool,
    /// Of the files that await trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneTrustParams {
    pub path: String,
    /// Exactly what the person was shown. Without it nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What a person typed where more than a few calls would break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneTrustResult {
    pub hash: String,
    /// From what is in force to what the project proposes, as a unified diff.
    pub diff: String,
    /// Without a hash: do they differ? With it: was something put in force?
    pub changed: bool,
    /// The version in force after this.
    pub version: u64,
    /// Without a hash: how many of the newest calls were allowed and would be denied.
    #[serde(default)]
    pub breaking: u64,
    /// Without a hash: the phrase that so many want; with it they can be put in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneStatusParams {
    /// Only the zone that holds this path; all zones without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneStatusResult {
    pub zones: Vec<ZoneView>,
    /// What is wrong with the journal and nobody has looked at yet; see `journal.doubts`.
    #[serde(default)]
    pub doubts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneView {
    pub zone: ZoneId,
    pub path: String,
    pub branch: String,
    pub policy_version: u64,
    /// The project's files are not what is in force.
    pub drift: bool,
    pub processes: Vec<ProcView>,
    pub tasks: Vec<TaskView>,
}
