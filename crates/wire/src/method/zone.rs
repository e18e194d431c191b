//! Zones: git worktrees and the policy in force there.

use super::process::ProcView;
use super::task::TaskView;
use serde::{Deserialize, Serialize};
use world::{FileCoverageMove, TaskId, ZoneId};

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
    /// Without a hash: the phrase that so many, or anything looser, want; with it they can be put in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
    /// Without a hash: what the rules say differently than those in force, or than the default.
    #[serde(default)]
    pub rules: Vec<super::policy::PolicyChangeView>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneStatusParams {
    /// Only the zone that holds this path; all zones without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only zones of this repository: `org/repo` or `repo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// With `path`: all zones of its repository where that zone is on `main` or `master`, or in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_site: Option<WholeSite>,
}

/// When more than one zone is asked for by one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WholeSite {
    OnMain,
    Always,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneResolveParams {
    /// `org/repo` or `repo`; the repository that `path` is in without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The first work tree of the repository without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneResolveResult {
    pub site: String,
    /// The folder of git's own.
    pub repository: String,
    pub branch: String,
    /// The work tree; `None` where there is none of this branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where one would be made.
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneCloseParams {
    pub path: String,
    /// Also where work is open or kept; it is destroyed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneCloseResult {
    pub path: String,
    pub branch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// It was the last of its repository, which is not registered any more.
    pub unregistered: bool,
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
    /// Slug of its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    pub path: String,
    pub branch: String,
    pub policy_version: u64,
    /// The project's files are not what is in force.
    pub drift: bool,
    pub processes: Vec<ProcView>,
    pub tasks: Vec<TaskView>,
    /// How much of it tests reach, as its last measured merge left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<CoverageView>,
}

/// Coverage of a zone, in hundredths of a percent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageView {
    pub baseline: u64,
    pub now: u64,
    /// Lines that can be run, and those that tests ran.
    pub covered: u64,
    pub total: u64,
    /// What is missing up to the baseline.
    pub debt: u64,
    /// Explore and debug mode are locked.
    pub locked: bool,
    /// Whose merge was measured last.
    pub task: TaskId,
    /// Files that differ from the baseline, those that lost most first; the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileCoverageMove>,
}
