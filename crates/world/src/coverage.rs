//! How much of a project its tests reach, as the kernel measured it, and what was lost of it while tests did not come first.
//!
//! **Invariant.** A zone's coverage changes only by what went into its project: an attempt that nobody merged is no debt. Everything is counted
//! in hundredths of a percent, so that no rounding decides. *Does not know* how a report is read, nor which falls a policy bears.

use crate::{MergeId, TaskId};
use serde::{Deserialize, Serialize};

/// Lines of the project's sources that can be run, and those that its tests ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCoverage {
    pub covered: u64,
    pub total: u64,
    /// Blob with the same for each file.
    pub files: String,
}

impl MeasuredCoverage {
    /// In hundredths of a percent.
    pub fn hundredths(&self) -> u64 {
        self.covered.min(self.total).saturating_mul(10_000).checked_div(self.total).unwrap_or(10_000)
    }
}

/// What a change of coverage means for the mode that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageVerdict {
    Fine,
    /// It falls further than the policy bears without a word.
    Warning,
    /// It falls so far that explore mode is locked once it is merged.
    Locked,
    /// Strict work brought it back: explore mode is free again once it is merged.
    Recovered,
}

impl CoverageVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            CoverageVerdict::Fine => "fine",
            CoverageVerdict::Warning => "warning",
            CoverageVerdict::Locked => "locked",
            CoverageVerdict::Recovered => "recovered",
        }
    }
}

/// One file's coverage in hundredths of a percent, before and after; a file that came or went has one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCoverageMove {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// What a run of the tests said of coverage, where the project wants it measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageEvidence {
    Measured(Box<CoverageFinding>),
    /// There is no report that the run itself wrote and that can be read. Nothing is concluded from it.
    Missing {
        why: String,
    },
}

/// Coverage beside the zone's baseline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoverageFinding {
    pub now: MeasuredCoverage,
    /// What it is compared with, in hundredths of a percent; `None` where nothing was measured before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<u64>,
    /// What a merge of it would mean; `None` where nothing is judged: before a task, and for what is exempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<CoverageVerdict>,
    /// Files that differ from the baseline, those that lost most first; the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<FileCoverageMove>,
}

impl CoverageEvidence {
    pub fn measured(&self) -> Option<&CoverageFinding> {
        match self {
            CoverageEvidence::Measured(finding) => Some(finding),
            CoverageEvidence::Missing { .. } => None,
        }
    }
}

/// What is known of a zone's coverage by its merges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneCoverage {
    /// What falls are measured against, in hundredths of a percent. Strict merges move it; nothing else does.
    pub baseline: u64,
    /// Blob with the files that it was measured by.
    pub baseline_files: String,
    /// The project after its last measured merge.
    pub now: MeasuredCoverage,
    /// Explore and debug mode are locked until strict work brings it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
    /// The merge that was judged last, and what was known before it: undone, it is as if it had not been.
    pub merge: MergeId,
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<ZoneCoverage>>,
}

impl ZoneCoverage {
    /// How far it is below its baseline, in hundredths of a percent.
    pub fn debt(&self) -> u64 {
        self.baseline.saturating_sub(self.now.hundredths())
    }

    /// What it is known by beside these figures.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        let before = self.before.as_deref().into_iter().flat_map(|before| [before.baseline_files.as_str(), before.now.files.as_str()]);
        [self.baseline_files.as_str(), self.now.files.as_str()].into_iter().chain(before)
    }
}

/// Hundredths of a percent as people read them.
pub fn percent(hundredths: u64) -> String {
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}
