//! Questions to a person, and the answers.

use super::methods;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use world::{Pid, ReviewId, ReviewState, TaskId};

methods! {
    List = "review.list" (ListParams) -> ListResult;
    Show = "review.show" (ShowParams) -> ReviewView;
    Answer = "review.answer" (AnswerParams) -> ReviewView;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Also those that are answered or void.
    #[serde(default)]
    pub all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListResult {
    pub reviews: Vec<ReviewView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowParams {
    pub review: ReviewId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerParams {
    pub review: ReviewId,
    pub answer: world::Answer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
    /// Redacted.
    pub input: Value,
    /// One for each rule that asked.
    pub reasons: Vec<String>,
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
