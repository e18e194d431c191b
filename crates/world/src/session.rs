//! A session: a task whose work is done by plans.
//!
//! A plan is a blob; the world knows how far it is. What a session is at any moment follows from its task's state and from here.

use crate::{CallId, TaskId, TaskState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a session may do and how: on record from its start, and never widened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionTerms {
    /// Plans again after each plan, until a plan has no step. Otherwise one plan is carried out.
    pub agentic: bool,
    pub mode: SessionMode,
    /// Who plans: `file`, `model:NAME`, `router`, `brain:SPEC`.
    pub planner: String,
    pub limits: SessionLimits,
    #[serde(default)]
    pub profile: PolicyProfile,
    #[serde(default)]
    pub constraints: PlanConstraints,
    /// Plans are looked at before a step of them runs.
    pub critics: bool,
    /// A model looks at them too.
    #[serde(default)]
    pub model_critic: bool,
    /// Lessons of other sessions are told to the planner, and one is learned at the end.
    pub memory: bool,
    /// Tokens that its planner's requests may hold; what is near it delegates, keeps or sums up.
    #[serde(default)]
    pub context_tokens: Option<u64>,
    /// A plan is made and judged, and no step of it begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan_only: bool,
    /// Nobody is there to be asked whether to go on: it stops with what it has.
    #[serde(default)]
    pub unattended: bool,
    /// 1 is the highest, 5 the lowest.
    pub priority: u8,
}

/// How real the calls of a session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    Live,
    /// Each step says what it would do.
    DryRun,
    /// Each step gives the example of its tool.
    Mock,
}

impl SessionMode {
    pub fn as_str(self) -> &'static str {
        match self {
            SessionMode::Live => "live",
            SessionMode::DryRun => "dry_run",
            SessionMode::Mock => "mock",
        }
    }
}

/// The most that a session may use. What is reached ends it, on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionLimits {
    pub max_steps: u64,
    pub max_iterations: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// What a session may touch at most, beside the policy in force: it narrows and never widens. An empty list says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyProfile {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_endpoints: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_commands: Vec<String>,
    /// Every call that changes something asks a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_approval_for_writes: bool,
}

/// What whoever gave the task wants of every plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanConstraints {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_allowlist: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_denylist: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_scope: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub success_criteria: Vec<String>,
}

/// How far a session is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub terms: SessionTerms,
    pub of: Option<TaskId>,
    pub is_planning: bool,
    /// Counts from 1; 0 before the first plan was asked for.
    pub iteration: u32,
    /// The plan in force.
    pub plan: Option<ActivePlan>,
    /// Steps that ended in all plans, those that were skipped not counted.
    pub steps_made: u64,
    /// What each iteration came to, the latest last; at most [`crate::limits::ITERATIONS_REMEMBERED`].
    #[serde(default)]
    pub iterations: VecDeque<IterationRecord>,
    /// Blob with the summary that stands for what was found before.
    #[serde(default)]
    pub summary: Option<String>,
    /// What sessions that it delegated to have found.
    #[serde(default)]
    pub findings: Vec<String>,
    /// The session that it delegated to and that has not ended.
    #[serde(default)]
    pub delegate: Option<TaskId>,
    #[serde(default)]
    pub futile: Option<String>,
    /// The iteration at which that was told: whether going on is of use is judged by those after it.
    #[serde(default)]
    pub futile_at: u32,
    /// Iterations up to this one are told to the planner in one line each.
    #[serde(default)]
    pub kept_until: u32,
    /// Iterations up to this one are in the summary.
    #[serde(default)]
    pub summed_until: u32,
    /// The iteration at which it last delegated a part of the work.
    #[serde(default)]
    pub delegated_at: u32,
    /// Names in the vault of what its planners said, where a record lacks a secret of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub originals: Vec<String>,
    /// Where it goes on from another session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<ForkPoint>,
    /// How long it was worked on in earlier stretches, in all its life.
    #[serde(default)]
    pub worked_ms: u64,
}

impl Session {
    /// Names in the vault of all that may be kept exactly for it, also of what a crash kept from being recorded.
    pub fn originals(&self, task: TaskId) -> impl Iterator<Item = String> {
        let received =
            (0..=self.iteration).flat_map(move |iteration| (0..=ROUNDS_KEPT).map(move |round| exact_answer(task, iteration, round)));
        let plans = 1..=self.plan.as_ref().map_or(0, |plan| plan.number).saturating_add(1);
        let accepted = plans.map(move |plan| exact_plan(task, plan));
        self.originals.iter().cloned().chain(received).chain(accepted).chain(self.exact_outputs(task))
    }

    /// Those of what steps of the plan in force gave.
    pub fn exact_outputs(&self, task: TaskId) -> impl Iterator<Item = String> {
        let begun = self.plan.iter().flat_map(|plan| plan.begun.keys());
        begun.map(move |step| exact_output(task, step))
    }

    /// What it cannot go on without: its plan, and the summary of what was before.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        self.plan.iter().map(|plan| plan.blob.as_str()).chain(self.summary.as_deref())
    }

    /// What it is, as seed 002 names the states of a session.
    pub fn status(&self, task: TaskState) -> SessionStatus {
        match task {
            TaskState::Queued if self.iteration == 0 => SessionStatus::Created,
            TaskState::Queued | TaskState::Stopped => SessionStatus::Paused,
            TaskState::Running if self.is_planning => SessionStatus::Planning,
            TaskState::Running => SessionStatus::Running,
            TaskState::Parked { .. } => SessionStatus::AwaitingApproval,
            TaskState::Done => SessionStatus::Completed,
            TaskState::Failed => SessionStatus::Failed,
            TaskState::Cancelled => SessionStatus::Aborted,
        }
    }
}

/// Rounds of one asking that are looked for in the vault: those that critics have, and the one before.
const ROUNDS_KEPT: u32 = 4;

/// Name in the vault of what a planner said, where its record lacks a secret of it.
pub fn exact_answer(task: TaskId, iteration: u32, round: u32) -> String {
    format!("answer-{task}-{iteration}-{round}")
}

/// The same of a plan that was accepted.
pub fn exact_plan(task: TaskId, plan: u32) -> String {
    format!("plan-{task}-{plan}")
}

/// The same of what a step gave last.
pub fn exact_output(task: TaskId, step: &str) -> String {
    format!("output-{task}-{step}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    Created,
    Planning,
    Running,
    AwaitingApproval,
    Paused,
    Completed,
    Failed,
    Aborted,
}

impl SessionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            SessionStatus::Created => "created",
            SessionStatus::Planning => "planning",
            SessionStatus::Running => "running",
            SessionStatus::AwaitingApproval => "awaiting_approval",
            SessionStatus::Paused => "paused",
            SessionStatus::Completed => "completed",
            SessionStatus::Failed => "failed",
            SessionStatus::Aborted => "aborted",
        }
    }
}

/// The plan that is carried out, and how far each of its begun steps is. A step that is not here has not begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActivePlan {
    /// Counts the accepted plans of the session, from 1.
    pub number: u32,
    pub blob: String,
    pub goal: String,
    pub steps: u32,
    pub begun: StepStates,
    /// No step of it begins any more, and why.
    #[serde(default)]
    pub replaced: Option<String>,
    /// Name in the vault of its exact text, where `blob` lacks a secret of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    pub tool: String,
    pub status: StepStatus,
    pub attempts: u32,
    /// The call that it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<StepError>>,
}

/// How far each begun step is. A copy costs nothing, however many there are: whoever looks at a task copies it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepStates(Arc<BTreeMap<String, StepState>>);

impl StepStates {
    pub(crate) fn to_mut(&mut self) -> &mut BTreeMap<String, StepState> {
        Arc::make_mut(&mut self.0)
    }
}

impl std::ops::Deref for StepStates {
    type Target = BTreeMap<String, StepState>;

    fn deref(&self) -> &BTreeMap<String, StepState> {
        &self.0
    }
}

impl Serialize for StepStates {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StepStates {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<StepStates, D::Error> {
        BTreeMap::deserialize(deserializer).map(|steps| StepStates(Arc::new(steps)))
    }
}

/// Which step of a session a call is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRef {
    pub plan: u32,
    pub step: String,
    pub attempt: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Running,
    Succeeded,
    Failed,
    /// What it depended on did not succeed, or its plan was given up.
    Skipped,
}

impl StepStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            StepStatus::Running => "running",
            StepStatus::Succeeded => "succeeded",
            StepStatus::Failed => "failed",
            StepStatus::Skipped => "skipped",
        }
    }

    pub fn ended(self) -> bool {
        self != StepStatus::Running
    }
}

/// Why a step failed or was skipped: our code, and the one that KarnEvil9 has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepError {
    pub code: String,
    pub karnevil9: String,
    pub message: String,
}

/// What a critic has against a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFinding {
    pub critic: String,
    /// Where in the plan: `steps[3].input.path`, or empty for all of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub at: String,
    pub message: String,
    /// The plan does not pass with it. Otherwise it is only told.
    pub blocks: bool,
}

/// What a plan costs at most. Its steps ask no model: that is for its planner, which may use what is left of the session's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCost {
    /// Calls, with every retry.
    pub calls: u64,
    /// Time that they may take, one after the other; what they wait for is not counted.
    pub work_ms: u64,
    /// What planning on may use: tokens, and millionths of a dollar. Without a limit there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_micros: Option<u64>,
}

/// Where a session goes on from another one: behind the record of a step's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForkPoint {
    pub of: TaskId,
    pub seq: u64,
}

/// What a session's workspace held at the end of a step, beside what was kept of it before: a list of paths and their contents. `left` paths could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepIncrement {
    pub blob: String,
    pub files: u64,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    pub left: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl ActivePlan {
    /// Stands in the record of a fork for what is kept exactly for another session.
    pub const GONE: &'static str = "gone";
}

/// What came of one iteration: what planners are told, and what futility is judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IterationRecord {
    pub iteration: u32,
    pub goal: String,
    pub succeeded: u32,
    pub failed: u32,
    pub skipped: u32,
    /// Each step with its tool and the beginning of its output or error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<StepFinding>,
    /// Digest of what the steps were: tools and inputs.
    pub shape: String,
    pub tokens: u64,
    pub micros: u64,
}

/// What a planner is told of a step that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFinding {
    pub step: String,
    pub title: String,
    pub tool: String,
    pub status: StepStatus,
    pub summary: String,
}

/// What a session's use of its planner's context asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextVerdict {
    Ok,
    Delegate,
    Checkpoint,
    Summarize,
}

impl ContextVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            ContextVerdict::Ok => "ok",
            ContextVerdict::Delegate => "delegate",
            ContextVerdict::Checkpoint => "checkpoint",
            ContextVerdict::Summarize => "summarize",
        }
    }
}

/// What a session taught, for later ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    pub summary: String,
    /// Of a session that succeeded.
    pub ok: bool,
    pub text: String,
    pub tools: Vec<String>,
    /// Whose lesson it is.
    pub task: Option<TaskId>,
    pub learned_ms: i64,
    /// How often it was told to a planner, and when last.
    pub recalled: u64,
    #[serde(default)]
    pub recalled_ms: Option<i64>,
}
