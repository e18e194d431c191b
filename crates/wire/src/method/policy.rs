//! The policy in force: checked, explained, tried out and changed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use world::{Remedy, TaskId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyCheckParams {
    /// A folder inside the zone.
    pub path: String,
    /// A candidate instead of the file in the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyCheckResult {
    pub rules: u64,
    pub extensions: u64,
    pub problems: Vec<PolicyProblem>,
    /// No problem is an error.
    pub ok: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyProblem {
    /// An error keeps the file from being put in force; a warning does not.
    pub error: bool,
    pub file: String,
    pub line: u64,
    pub column: u64,
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyHomeParams {
    /// Exactly what the person was shown. Without it nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What a person typed where more than a few calls would break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
}

/// The operator's own policy, which holds in every project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyHomeResult {
    pub file: String,
    pub hash: String,
    /// From what is in force to the file, as a unified diff.
    pub diff: String,
    /// Without a hash: do they differ? With it: was something put in force?
    pub changed: bool,
    /// The version in force after this; 0 while there is none.
    pub version: u64,
    pub problems: Vec<PolicyProblem>,
    /// Without a hash: how many of the newest calls were allowed and would be denied.
    #[serde(default)]
    pub breaking: u64,
    /// Without a hash: the phrase that so many want; with it they can be put in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyExplainParams {
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
pub struct PolicyExplainResult {
    pub outcome: PolicyOutcome,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Box<Remedy>>,
    /// Every rule that was asked, in order of layers.
    pub rules: Vec<RuleStatement>,
}

/// What a policy decides about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOutcome {
    Allow,
    /// A person is asked.
    Review,
    Deny,
    /// Nothing was decided.
    Pass,
}

impl PolicyOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyOutcome::Allow => "allow",
            PolicyOutcome::Review => "review",
            PolicyOutcome::Deny => "deny",
            PolicyOutcome::Pass => "pass",
        }
    }
}

/// Where a statement about a call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleLayer {
    Builtin,
    /// A rule of the operator's own `policy.yaml`.
    Home,
    Token,
    /// A rule of the project's `skep.yml`.
    Yaml,
    Extension,
    Grant,
    Budget,
}

impl RuleLayer {
    pub fn as_str(self) -> &'static str {
        match self {
            RuleLayer::Builtin => "builtin",
            RuleLayer::Home => "home",
            RuleLayer::Token => "token",
            RuleLayer::Yaml => "yaml",
            RuleLayer::Extension => "extension",
            RuleLayer::Grant => "grant",
            RuleLayer::Budget => "budget",
        }
    }
}

/// What one rule says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleEffect {
    Allow,
    Deny,
    RequireReview,
    /// It applies and abstains.
    Pass,
    /// It does not apply.
    Silent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatement {
    pub layer: RuleLayer,
    pub rule: String,
    pub said: RuleEffect,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyTrialParams {
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
pub struct PolicyTrialResult {
    /// Calls that were tried.
    pub tried: u64,
    pub breaking: u64,
    /// What a person must type to put so much breaking, or anything looser, in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
    /// What the rules themselves say differently than those in force.
    #[serde(default)]
    pub rules: Vec<PolicyChangeView>,
    /// Only those that would come out otherwise.
    pub changes: Vec<TrialChange>,
}

/// One difference between a proposed policy and the one in force, or the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChangeView {
    /// A rule's name, or a key of `skep.yml`.
    pub name: String,
    pub kind: PolicyChangeKind,
    pub what: String,
    pub effect: PolicyChangeEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyChangeKind {
    Added,
    Removed,
    Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyChangeEffect {
    /// It may let more pass.
    Looser,
    Stricter,
    Same,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialChange {
    pub seq: u64,
    pub tool: String,
    /// Path, command or host.
    pub about: String,
    pub before: PolicyOutcome,
    pub after: PolicyOutcome,
    pub why: String,
    /// Allowed before and denied after.
    pub breaking: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyLogParams {
    pub path: String,
    /// Of the operator's own policy instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub home: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLogResult {
    pub versions: Vec<PolicyVersion>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyVersion {
    pub version: u64,
    pub seq: u64,
    pub at_ms: i64,
    pub by: String,
    pub hash: String,
    /// From the version before it.
    pub diff: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySuggestResult {
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
