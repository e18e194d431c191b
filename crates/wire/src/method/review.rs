//! Questions to a person, and the answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use world::{Pid, ReviewId, ReviewState, TaskId};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewListParams {
    /// Also those that are answered or void.
    #[serde(default)]
    pub all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewListResult {
    pub reviews: Vec<ReviewView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewShowParams {
    pub review: ReviewId,
    /// With the exact input, neither shortened nor redacted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewAnswerParams {
    pub review: ReviewId,
    pub answer: world::Answer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How far a yes reaches, or a no that lasts. Without it the answer is about exactly this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<AnswerReach>,
    /// With `reach`: what the answer is about, instead of calls like this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<world::CallPattern>,
    /// Conditions of a yes, for its whole life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<AnswerTerms>,
    /// With a no: what should be done instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<world::Alternative>,
    /// With a yes to a question that is cut: `seen` of its full view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// With `changes`: the task's work is laid over the project as it is now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub newer_base: bool,
}

/// Whom an answer holds for beyond this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerReach {
    Process,
    Session,
    Zone,
    User,
    All,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerTerms {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<world::Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<world::Constraints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observe: Option<world::Observe>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewStatus {
    Open,
    Answered,
    /// The task ended before anyone answered.
    Void,
}

impl From<&ReviewState> for ReviewStatus {
    fn from(state: &ReviewState) -> ReviewStatus {
        match state {
            ReviewState::Open => ReviewStatus::Open,
            ReviewState::Answered { .. } => ReviewStatus::Answered,
            ReviewState::Void => ReviewStatus::Void,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewView {
    pub review: ReviewId,
    pub pid: Pid,
    /// Name of the process that asks.
    pub process: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub tool: String,
    /// Redacted and shortened, unless all was asked for.
    pub input: Value,
    /// A yes covers more than the record of the question shows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// What is cut cannot be shown here at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// In a full view of a question that is cut: what a yes must repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// One for each rule that asked.
    pub reasons: Vec<String>,
    /// The rules themselves.
    #[serde(default)]
    pub rules: Vec<String>,
    /// What a wider answer would be about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<world::CallPattern>,
    /// The sandbox that it would run in, and what that reaches. A yes covers no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<world::UsedRoom>,
    /// Answers to earlier questions about the same tool, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
    pub asked_ms: i64,
    pub state: ReviewStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<world::Answer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What a yes would change, as a unified diff, where the tool can say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}
