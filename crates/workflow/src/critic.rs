//! Critics: what speaks against a plan before any step of it runs.
//!
//! Each is named as seed 002 names it, or after what it looks at: `self_reference`, `unknown_tool`, `version`, `tool_input`, `step_limit`, `constraints`, `profile`. What policy would say
//! of each step is the kernel's look, `policy`; what a model thinks of the plan is `model`.

mod input;

use crate::findings::{Findings, blocking};
use crate::footprint::{Footprint, footprint};
use crate::graph::PlanGraph;
use crate::plan::{Plan, PlanStep};
use crate::profile::{CallScope, ScopeVerdict, judge_scope, tool_refusal};
use serde_json::Value;
use world::{PlanConstraints, PlanFinding, PolicyProfile, Refusal};

/// The tools there are, as critics and the order of steps see them.
pub trait ToolCatalog {
    /// Its version; `None` if there is no such tool.
    fn version(&self, tool: &str) -> Option<&str>;

    /// What its input must look like.
    fn input_schema(&self, tool: &str) -> Option<&Value>;

    /// Does a whole input fit? The refusal names the field and does not quote it.
    fn check_input(&self, tool: &str, input: &Value) -> Result<(), Refusal>;

    /// Does such a call change nothing anywhere?
    fn reads_only(&self, tool: &str, input: &Value) -> bool;

    /// What such a call touches. The input may not fit the schema: then whatever cannot be told is unknown.
    fn footprint(&self, tool: &str, input: &Value) -> Footprint;
}

/// What a plan is looked at with.
#[derive(Clone, Copy)]
pub struct CriticContext<'a> {
    pub catalog: &'a dyn ToolCatalog,
    /// Steps that the session may still make.
    pub steps_left: u64,
    /// Steps that one plan may have: an agentic planner is to look at what came of three before it goes on.
    pub steps_max: Option<usize>,
    pub profile: &'a PolicyProfile,
    pub constraints: &'a PlanConstraints,
}

/// What speaks against a plan. It may run if nothing in the list `blocks`.
pub fn criticize(plan: &Plan, context: &CriticContext<'_>) -> Vec<PlanFinding> {
    let mut found = Findings::default();
    if let Err(findings) = PlanGraph::new(plan) {
        findings.into_iter().for_each(|finding| found.add(finding));
    }
    step_limit(plan, context, &mut found);
    let mut inputs = input::InputCritic::default();
    for (index, step) in plan.steps.iter().enumerate() {
        let at = format!("steps[{index}]");
        let Some(version) = context.catalog.version(&step.tool_ref.name) else {
            found.add(blocking("unknown_tool", format!("{at}.tool_ref.name"), format!("there is no tool `{}`", step.tool_ref.name)));
            continue;
        };
        if let Some(range) = &step.tool_ref.version_range
            && !range.has(version)
        {
            let message = format!("`{}` has version {version}, which is not in `{}`", step.tool_ref.name, range.as_str());
            found.add(blocking("version", format!("{at}.tool_ref.version_range"), message));
        }
        if let Some(why) = tool_refusal(context.constraints, &step.tool_ref.name) {
            found.add(blocking("constraints", format!("{at}.tool_ref.name"), why));
        }
        if let Err(finding) = inputs.check(step, &at, context.catalog) {
            found.add(finding);
            continue;
        }
        scope(step, &at, context, &mut found);
    }
    found.into_vec()
}

fn step_limit(plan: &Plan, context: &CriticContext<'_>, found: &mut Findings) {
    let steps = plan.steps.len();
    if u64::try_from(steps).unwrap_or(u64::MAX) > context.steps_left {
        found.add(blocking("step_limit", "steps", format!("the plan has {steps} steps; the session may make {} more", context.steps_left)));
    }
    if let Some(max) = context.steps_max.filter(|max| steps > *max) {
        found.add(blocking("step_limit", "steps", format!("the plan has {steps} steps; a plan of this session may have {max} at most")));
    }
}

/// Paths against the profile and the scope, as far as they are known before the step begins. The door looks again.
fn scope(step: &PlanStep, at: &str, context: &CriticContext<'_>, found: &mut Findings) {
    let Footprint { reads, writes, writes_unknown } = footprint(step, context.catalog);
    // What comes from an output is judged when it is there.
    if !step.input_from.is_empty() && writes_unknown {
        return;
    }
    let paths: Vec<String> = reads.into_iter().chain(writes).collect();
    // Which tools the task allows is told of the tool's name already, and whether a person is asked by policy.
    let paths_only = PlanConstraints { path_scope: context.constraints.path_scope.clone(), ..PlanConstraints::default() };
    let call = CallScope { tool: &step.tool_ref.name, reads_only: true, paths: &paths, ..CallScope::default() };
    if let ScopeVerdict::Denied(why) = judge_scope(context.profile, &paths_only, &call) {
        found.add(blocking("profile", format!("{at}.input"), why));
    }
}

#[cfg(test)]
mod tests;
