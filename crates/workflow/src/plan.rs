//! A plan: steps that are calls of tools, with what each waits for. Schema 0.1 of KarnEvil9, which docs/plans.md describes and docs/plan.schema.json states.
//!
//! **Invariant.** A [`Plan`] comes from [`Plan::parse`] alone, so every field of it was enforced: its steps have distinct names, refer to steps of the same plan, and wait
//! for each other in no circle. Does not know which tools there are: that is for critics.

mod read;
mod text;

pub use text::plan_documents;

use crate::criteria::Criterion;
use crate::field::OutputRef;
use crate::version::VersionRange;
use crate::{PlanGraph, findings};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use world::PlanFinding;

/// The one version of the schema.
pub const SCHEMA_VERSION: &str = "0.1";
/// The shortest and the longest time that a step may be given.
pub const STEP_TIMEOUT_MS_MIN: u64 = 100;
pub const STEP_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Most attempts after the first.
pub const STEP_RETRIES_MAX: u32 = 10;

/// What is to be done, step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub schema_version: String,
    /// As its planner called it. The session counts its plans itself.
    pub plan_id: Option<String>,
    pub goal: String,
    pub assumptions: Vec<String>,
    /// In the order in which they were written, which decides between steps that could begin at the same time.
    pub steps: Vec<PlanStep>,
    pub artifacts: Vec<PlanArtifact>,
    pub created_at: Option<String>,
}

/// One call of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanStep {
    pub step_id: String,
    /// The step's id, where its planner gave it no title.
    pub title: String,
    pub description: String,
    pub tool_ref: ToolRef,
    pub input: Map<String, Value>,
    /// Fields of the input that are taken from outputs of earlier steps.
    pub input_from: BTreeMap<String, OutputRef>,
    /// Steps that must have succeeded before it begins, beside those of `input_from`.
    pub depends_on: Vec<String>,
    /// What must hold of its output, all of it.
    pub success_criteria: Vec<Criterion>,
    pub failure_policy: FailurePolicy,
    /// The time that it may take at most; left out, that of its tool.
    pub timeout_ms: Option<u64>,
    /// How often it is tried again after an attempt that failed.
    pub max_retries: u32,
}

/// The tool of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRef {
    pub name: String,
    pub version_range: Option<VersionRange>,
}

/// Something that a plan is to leave behind. Told to people, nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanArtifact {
    pub name: String,
    pub kind: String,
    pub description: String,
}

/// The kinds of [`PlanArtifact`].
pub const ARTIFACT_KINDS: &[&str] = &["file", "patch", "pr_url", "report", "other"];

/// What becomes of a plan when a step has failed for good. Whatever depends on that step is skipped in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FailurePolicy {
    /// No other step begins, and the plan has failed.
    #[default]
    Abort,
    /// No other step begins, and another plan is asked for.
    Replan,
    /// What does not depend on it goes on.
    Continue,
}

impl FailurePolicy {
    pub const ALL: [FailurePolicy; 3] = [FailurePolicy::Abort, FailurePolicy::Replan, FailurePolicy::Continue];

    pub fn as_str(self) -> &'static str {
        match self {
            FailurePolicy::Abort => "abort",
            FailurePolicy::Replan => "replan",
            FailurePolicy::Continue => "continue",
        }
    }
}

impl Plan {
    /// Reads a plan, in JSON or YAML, or says everything that is wrong with it and where. A plan without steps is how an agentic session's planner says that the task is
    /// done; elsewhere it `may_be_empty` not.
    pub fn parse(text: &str, may_be_empty: bool) -> Result<Plan, Vec<PlanFinding>> {
        let value = text::value(text)?;
        let plan = read::plan(&value, may_be_empty)?;
        // Every later use needs an order of the steps, so a plan that has none is no plan.
        PlanGraph::new(&plan)?;
        Ok(plan)
    }

    /// The plan as [`Plan::parse`] reads it again.
    pub fn to_json(&self) -> String {
        self.to_value().to_string()
    }

    pub fn to_value(&self) -> Value {
        let mut plan = Map::new();
        plan.insert("schema_version".to_owned(), json!(self.schema_version));
        if let Some(id) = &self.plan_id {
            plan.insert("plan_id".to_owned(), json!(id));
        }
        plan.insert("goal".to_owned(), json!(self.goal));
        plan.insert("assumptions".to_owned(), json!(self.assumptions));
        plan.insert("steps".to_owned(), self.steps.iter().map(PlanStep::to_value).collect());
        if !self.artifacts.is_empty() {
            plan.insert("artifacts".to_owned(), self.artifacts.iter().map(PlanArtifact::to_value).collect());
        }
        if let Some(at) = &self.created_at {
            plan.insert("created_at".to_owned(), json!(at));
        }
        Value::Object(plan)
    }

    pub fn step(&self, id: &str) -> Option<&PlanStep> {
        self.steps.iter().find(|step| step.step_id == id)
    }
}

impl PlanStep {
    /// Every step that must have succeeded before, each once, in the order in which the plan names them.
    pub fn waits_for(&self) -> Vec<&str> {
        let named = self.depends_on.iter().map(String::as_str);
        let mut seen = std::collections::BTreeSet::new();
        named.chain(self.input_from.values().map(|from| from.step.as_str())).filter(|step| seen.insert(*step)).collect()
    }

    pub fn to_value(&self) -> Value {
        let mut tool = Map::new();
        tool.insert("name".to_owned(), json!(self.tool_ref.name));
        if let Some(range) = &self.tool_ref.version_range {
            tool.insert("version_range".to_owned(), json!(range.as_str()));
        }
        let mut step = Map::new();
        step.insert("step_id".to_owned(), json!(self.step_id));
        step.insert("title".to_owned(), json!(self.title));
        if !self.description.is_empty() {
            step.insert("description".to_owned(), json!(self.description));
        }
        step.insert("tool_ref".to_owned(), Value::Object(tool));
        step.insert("input".to_owned(), Value::Object(self.input.clone()));
        if !self.input_from.is_empty() {
            let from = self.input_from.iter().map(|(field, from)| (field.clone(), json!(from.to_string())));
            step.insert("input_from".to_owned(), Value::Object(from.collect()));
        }
        if !self.depends_on.is_empty() {
            step.insert("depends_on".to_owned(), json!(self.depends_on));
        }
        if !self.success_criteria.is_empty() {
            let criteria = self.success_criteria.iter().map(|criterion| json!(criterion.as_str()));
            step.insert("success_criteria".to_owned(), criteria.collect());
        }
        step.insert("failure_policy".to_owned(), json!(self.failure_policy.as_str()));
        if let Some(timeout_ms) = self.timeout_ms {
            step.insert("timeout_ms".to_owned(), json!(timeout_ms));
        }
        step.insert("max_retries".to_owned(), json!(self.max_retries));
        Value::Object(step)
    }
}

impl PlanArtifact {
    fn to_value(&self) -> Value {
        let mut artifact = json!({ "name": self.name, "type": self.kind });
        if !self.description.is_empty() {
            artifact["description"] = json!(self.description);
        }
        artifact
    }
}

/// Is it a name that a tool can have: KarnEvil9's `read-file` or our `fs.read`?
pub(crate) fn is_tool_name(name: &str) -> bool {
    let is_word = |word: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        word.starts_with(|first: char| first.is_ascii_lowercase()) && word.bytes().all(inner)
    };
    name.len() <= 64 && name.split('.').count() <= 2 && name.split('.').all(is_word)
}

/// Is it a name that a step can have? It has no dot, so that `"<step_id>.<field>"` has one reading.
pub(crate) fn is_step_id(id: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&id.len()) && id.bytes().all(inner)
}

/// A finding of the schema.
pub(crate) fn misfit(at: impl Into<String>, message: impl Into<String>) -> PlanFinding {
    findings::blocking("schema", at, message)
}

#[cfg(test)]
mod tests;
