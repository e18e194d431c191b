//! What sessions taught, for later ones.

use serde::{Deserialize, Serialize};
use world::{LessonId, TaskId};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryListResult {
    /// The newest first.
    pub lessons: Vec<LessonView>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryShowParams {
    pub lesson: LessonId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryForgetParams {
    pub lessons: Vec<LessonId>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryWhyParams {
    /// What is to be done.
    pub text: String,
}

/// What a planner would be told for a text, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryWhyResult {
    pub matches: Vec<LessonMatch>,
    /// Lessons that there are.
    pub of: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LessonMatch {
    pub lesson: LessonView,
    /// Higher fits better.
    pub score: f64,
    /// Words of the text that the lesson has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonView {
    pub lesson: LessonId,
    /// What that session was to do.
    pub summary: String,
    /// Of a session that succeeded.
    pub ok: bool,
    /// What a planner is told of it.
    pub text: String,
    pub tools: Vec<String>,
    /// Whose lesson it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub learned_ms: i64,
    /// How often a planner was told.
    pub recalled: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled_ms: Option<i64>,
    /// Sessions whose planners were told; only `memory.show` tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told_to: Vec<TaskId>,
}
