//! A plan in strict mode: steps that write source depend on steps that write tests, and on the kernel's look at them.

use super::PLAN_COMPLETE;
use crate::criteria::Criterion;
use crate::discipline::PathKinds;
use crate::findings::blocking;
use crate::plan::{FailurePolicy, Plan, PlanStep, ToolRef};
use std::collections::BTreeMap;
use world::{PlanFinding, WorkflowState};

/// Who finds it.
const CRITIC: &str = "test_first";
const WRITES: [&str; 5] = super::WRITES;
/// Steps that are put in: the plan is complete; the tests are seen to fail.
const BEGIN: &str = "skep-plan-complete";
const RED: &str = "skep-tests-red";

/// The paths that a step writes by their names, as far as the plan says them.
fn written(step: &PlanStep) -> Vec<&str> {
    if !WRITES.contains(&step.tool_ref.name.as_str()) {
        return Vec::new();
    }
    ["path", "from", "to"].iter().filter_map(|field| step.input.get(*field)?.as_str()).collect()
}

fn writes_tests(step: &PlanStep, kinds: &dyn PathKinds) -> bool {
    let paths = written(step);
    !paths.is_empty() && paths.iter().all(|path| kinds.is_test(path))
}

fn writes_source(step: &PlanStep, kinds: &dyn PathKinds) -> bool {
    written(step).iter().any(|path| !kinds.is_test(path))
}

/// What speaks against a plan in strict mode: it writes source, and no step of it writes a test.
pub fn source_before_tests(plan: &Plan, kinds: &dyn PathKinds) -> Option<PlanFinding> {
    let source = plan.steps.iter().position(|step| writes_source(step, kinds))?;
    if plan.steps.iter().any(|step| writes_tests(step, kinds)) {
        return None;
    }
    let at = format!("steps[{source}]");
    Some(blocking(CRITIC, at, "it writes source, and no step of the plan writes a test first".to_owned()))
}

/// The same plan, so ordered that it can be carried out from this state: every step that writes tests waits for the end of planning, and
/// every step that writes source for all of those and for the kernel's look at them.
pub fn test_steps_first(mut plan: Plan, state: WorkflowState, kinds: &dyn PathKinds) -> Plan {
    let of = |plan: &Plan, is: &dyn Fn(&PlanStep) -> bool| -> Vec<String> {
        plan.steps.iter().filter(|step| is(step)).map(|step| step.step_id.clone()).collect()
    };
    let tests = of(&plan, &|step| writes_tests(step, kinds));
    let source = of(&plan, &|step| writes_source(step, kinds));
    if (tests.is_empty() && source.is_empty()) || plan.steps.iter().any(|step| step.tool_ref.name == PLAN_COMPLETE) {
        return plan;
    }
    let begins = state == WorkflowState::Planning;
    let sees_red = !source.is_empty() && matches!(state, WorkflowState::Planning | WorkflowState::TestWriting);
    for step in &mut plan.steps {
        let is_source = source.contains(&step.step_id);
        if begins && (is_source || tests.contains(&step.step_id)) {
            step.depends_on.push(BEGIN.to_owned());
        }
        if is_source && sees_red {
            step.depends_on.extend(tests.iter().filter(|test| **test != step.step_id).cloned());
            step.depends_on.push(RED.to_owned());
        }
        step.depends_on.sort();
        step.depends_on.dedup();
    }
    if sees_red {
        let mut before = tests;
        before.extend(begins.then(|| BEGIN.to_owned()));
        plan.steps.insert(0, completing(RED, "the kernel sees the new tests fail", before, Some("state == \"code_writing\"")));
    }
    if begins {
        plan.steps.insert(0, completing(BEGIN, "the plan is complete", Vec::new(), None));
    }
    plan
}

fn completing(id: &str, title: &str, depends_on: Vec<String>, criterion: Option<&str>) -> PlanStep {
    PlanStep {
        step_id: id.to_owned(),
        title: title.to_owned(),
        description: String::new(),
        tool_ref: ToolRef { name: PLAN_COMPLETE.to_owned(), version_range: None },
        input: serde_json::Map::new(),
        input_from: BTreeMap::new(),
        depends_on,
        success_criteria: criterion.and_then(|text| Criterion::parse(text).ok()).into_iter().collect(),
        failure_policy: FailurePolicy::Abort,
        timeout_ms: None,
        max_retries: 0,
    }
}
