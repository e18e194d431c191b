//! The policy in force: checked, explained, tried out and changed.

use super::methods;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use world::TaskId;

methods! {
    /// Parses the project's files, or `text`, without putting anything in force.
    Check = "policy.check" (CheckParams) -> CheckResult;
    /// Which rules would speak about a call, and why.
    Explain = "policy.explain" (ExplainParams) -> ExplainResult;
    /// What would change for calls of the past.
    Trial = "policy.trial" (TrialParams) -> TrialResult, wait None;
    /// Every version that was in force, newest first.
    Log = "policy.log" (LogParams) -> LogResult;
    /// Rules that would have saved questions.
    Suggest = "policy.suggest" (LogParams) -> SuggestResult, wait None;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckParams {
    /// A folder inside the zone.
    pub path: String,
    /// A candidate instead of the file in the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub rules: u64,
    pub extensions: u64,
    pub problems: Vec<Problem>,
    /// No problem is an error.
    pub ok: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// An error keeps the file from being put in force; a warning does not.
    pub error: bool,
    pub file: String,
    pub line: u64,
    pub column: u64,
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainParams {
    pub path: String,
    pub tool: String,
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Explain by the file in the tree instead of what is in force.
    #[serde(default)]
    pub candidate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainResult {
    /// `allow`, `review` or `deny`.
    pub outcome: String,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Every rule that was asked, in order of layers.
    pub rules: Vec<RuleSaid>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSaid {
    /// `builtin`, `token`, `yaml`, `extension`, `grant` or `default`.
    pub layer: String,
    pub rule: String,
    /// `allow`, `deny`, `require_review`, `pass`, or `silent` when it does not apply.
    pub said: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialParams {
    pub path: String,
    /// How many of the newest calls; 100 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_seq: Option<u64>,
    /// A candidate instead of the file in the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Calls that were tried.
    pub tried: u64,
    pub breaking: u64,
    /// What a person must type to put so much breaking in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
    /// Only those that would come out otherwise.
    pub changes: Vec<TrialChange>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialChange {
    pub seq: u64,
    pub tool: String,
    /// Path, command or host.
    pub about: String,
    pub before: String,
    pub after: String,
    pub why: String,
    /// Allowed before and denied after.
    pub breaking: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogParams {
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogResult {
    pub versions: Vec<Version>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub version: u64,
    pub seq: u64,
    pub at_ms: i64,
    pub by: String,
    pub hash: String,
    /// From the version before it.
    pub diff: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuggestResult {
    pub questions: u64,
    pub saved: u64,
    /// Denied questions that the rules would let through: none, or nothing is suggested.
    pub let_through: u64,
    /// Rules to paste into the policy file; empty when there is nothing to suggest.
    pub yaml: String,
    /// In one sentence.
    #[serde(default)]
    pub summary: String,
    /// One line for each rule: what it would have saved.
    pub because: Vec<String>,
}
