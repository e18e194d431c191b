//! Plans: made by a planner, and looked at before anything of them runs.

use serde::{Deserialize, Serialize};
use world::{CallId, PlanCost, PlanFinding, SessionTerms, StepError, StepStatus, TaskId};

/// A plan that is wanted, and not yet carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanMakeParams {
    /// A folder inside the zone. A zone that is not there yet is opened.
    pub path: String,
    /// What is to be done.
    pub text: String,
    pub terms: SessionTerms,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanMakeResult {
    /// The plan as a file holds it: JSON.
    pub text: String,
    pub plan: PlanView,
    /// What critics have against it, and what is only told.
    pub findings: Vec<PlanFinding>,
    /// The task under which its planner was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCheckParams {
    /// A folder inside the zone whose policy looks at it.
    pub path: String,
    /// YAML or JSON.
    pub text: String,
    pub terms: SessionTerms,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanCheckResult {
    /// `None` where the text is no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanView>,
    pub findings: Vec<PlanFinding>,
    /// What it would cost at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<PlanCost>,
    /// The same of each plan behind the first, where the text holds several behind lines of `---`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<PlanCheckResult>,
}

impl PlanCheckResult {
    /// Whether it could be carried out, and whatever plan stands behind it.
    pub fn passes(&self) -> bool {
        self.plan.is_some() && !self.findings.iter().any(|finding| finding.blocks) && self.further.iter().all(PlanCheckResult::passes)
    }

    /// Each plan by itself, in order.
    pub fn each(&self) -> impl Iterator<Item = PlanCheckResult> {
        let alone = |one: &PlanCheckResult| PlanCheckResult { further: Vec::new(), ..one.clone() };
        std::iter::once(self).chain(&self.further).map(alone).collect::<Vec<_>>().into_iter()
    }
}

/// A plan, with how far its steps are where it is carried out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanView {
    pub plan_id: String,
    pub goal: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// What it says it makes, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// In the order of the plan.
    pub steps: Vec<StepView>,
}

/// A step of a plan. One that has not begun has no status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    pub step: String,
    pub title: String,
    pub tool: String,
    /// Steps that come before it: those that it names, and those whose output it takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StepStatus>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_retries: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// `abort`, `replan` or `continue`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure_policy: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<StepError>>,
    /// What it would have done, in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would: Option<String>,
    /// It runs, and its sandbox is frozen: by `kernel` for a session of higher priority, or by whom else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_by: Option<String>,
}

/// What a call of a dry run says that it would have done, by its output.
pub fn would_text(output: &serde_json::Value) -> Option<String> {
    let is_dry = output.get("dry_run") == Some(&serde_json::Value::Bool(true));
    output.get("would").filter(|_| is_dry)?.as_str().map(str::to_owned)
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
