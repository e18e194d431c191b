//! Sessions: tasks that are done by plans.

use super::memory::LessonView;
use super::plan::PlanView;
use super::task::{TaskUsageView, TaskView};
use serde::{Deserialize, Serialize};
use world::{
    ContextVerdict, Discipline, IterationRecord, PlanCost, PlanFinding, ReviewId, SessionMode, SessionStatus, SessionTerms, TaskId, ZoneId,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStartParams {
    /// A folder inside the zone. A zone that is not there yet is opened.
    pub path: String,
    /// What is to be done.
    pub text: String,
    pub terms: SessionTerms,
    /// The text of a plan: YAML or JSON, for the planner `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Take its traffic with models down on a cassette.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub record: bool,
    /// What kind of caller its process is, for rules about `caller_tag`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How strictly tests come first: `strict`, `explore` or `debug`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionListParams {
    /// Only the zone that holds this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionListResult {
    /// Those that have not ended first, then the newest first.
    pub sessions: Vec<SessionRow>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    pub task: TaskId,
    pub text: String,
    pub status: SessionStatus,
    pub zone: ZoneId,
    pub branch: String,
    pub agentic: bool,
    pub mode: SessionMode,
    pub planner: String,
    pub priority: u8,
    pub queued_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    pub iteration: u32,
    pub steps: StepCounts,
    /// The question that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TaskUsageView>,
    /// The session that delegated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<TaskId>,
}

/// How many steps of the plan in force are how far. What is in none of these has not begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCounts {
    pub total: u64,
    pub running: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub skipped: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionShowParams {
    pub task: TaskId,
    /// Without the plan, its critics and its iterations: what changes while it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brief: bool,
    /// As it was after this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_seq: Option<u64>,
}

/// All that is known of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    pub task: TaskView,
    pub status: SessionStatus,
    pub terms: SessionTerms,
    /// Number of the record up to which this is told at least; what follows it may be in here too.
    pub seq: u64,
    /// Number of its newest record. Whoever was told all up to there knows what is in here.
    #[serde(default)]
    pub last_seq: u64,
    /// The time that this is told of, where it is told as it was; what it had cost by then is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<TaskId>,
    /// Counts from 1; 0 before the first plan was asked for.
    pub iteration: u32,
    /// Number of the plan in force; 0 while there is none.
    pub plan_number: u32,
    pub steps: StepCounts,
    /// Steps that ended in all plans, without those that were skipped.
    pub steps_made: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanView>,
    /// Why no step of it begins any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_replaced: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews_of_plans: Vec<PlanReview>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<IterationRecord>,
    /// What its planner was told of earlier sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lessons: Vec<LessonView>,
    /// The session that a part of it is delegated to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegate: Option<TaskId>,
    /// What those found that it delegated to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegated: Vec<String>,
    /// The pattern by which it was found to get nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub futile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
    /// Limits that were reached, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits_reached: Vec<String>,
}

/// What critics said of one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReview {
    pub iteration: u32,
    pub round: u32,
    pub findings: Vec<PlanFinding>,
    /// It was sent back, or was no plan.
    pub rejected: bool,
    /// Nobody looked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub off: bool,
    /// What the plan would cost at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<PlanCost>,
}

/// How full the context of its planner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextView {
    pub verdict: ContextVerdict,
    pub used: u64,
    pub budget: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionWatchParams {
    pub task: TaskId,
    /// Records behind this one; from now on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionReplayParams {
    pub task: TaskId,
    /// Execute it again on what its calls and planners gave then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reexecute: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionForkParams {
    pub task: TaskId,
    /// The end of which step: its id, `PLAN/STEP`, or the number of a record.
    pub at: String,
}

/// What came of executing a session again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReexecutedView {
    pub plans: u64,
    pub steps: u64,
    pub calls: u64,
    /// Of what each step came to.
    pub digest: String,
    /// The first record that does not follow, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

/// What came of checking a session's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReplayResult {
    pub of: TaskId,
    /// Records and steps that were looked at.
    pub records: u64,
    pub steps: u64,
    /// What is wrong with the chain, and where the world says something else than its records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<ReexecutedView>,
}
