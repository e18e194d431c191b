//! What is known of a plan before any step of it runs: what the gate would say of each, and what all of them would cost at most.

use crate::Foreseen;
use crate::outputs::has_mark;
use crate::work::SessionWork;
use gate::Request;
use journal::REDACTED;
use serde_json::Value;
use tool::Registry;
use workflow::{FINDINGS_MAX, Plan};
use world::{Code, PlanCost, PlanFinding, SessionLimits};

/// The critic's name in what it finds.
const POLICY: &str = "policy";

/// What steps cost at most, by their retries and by how long they and their tools may take.
pub(crate) fn most(tools: &Registry, plan: &Plan, limits: &SessionLimits, (tokens, micros): (u64, u64)) -> PlanCost {
    let mut cost = PlanCost {
        planning_tokens: limits.max_tokens.map(|max| max.saturating_sub(tokens)),
        planning_micros: limits.max_cost_micros.map(|max| max.saturating_sub(micros)),
        ..PlanCost::default()
    };
    for step in &plan.steps {
        let attempts = u64::from(step.max_retries) + 1;
        let of_tool = tools.get(&step.tool_ref.name).map_or(0, |tool| tool.manifest().timeout_ms);
        let each = step.timeout_ms.map_or(of_tool, |own| own.min(of_tool));
        cost.calls = cost.calls.saturating_add(attempts);
        cost.work_ms = cost.work_ms.saturating_add(each.saturating_mul(attempts));
    }
    cost
}

/// Inputs in which something stands for a secret: whoever wrote the plan took it from a record, and what is left there is no input.
pub(crate) fn marked(plan: &Plan) -> Vec<PlanFinding> {
    let marked = plan.steps.iter().enumerate().filter(|(_, step)| step.input.values().any(has_mark));
    let told = |(index, _)| {
        let message = format!("it has `{REDACTED}` where a secret was: give the secret itself, or have a step read it");
        PlanFinding { critic: "redacted".to_owned(), at: format!("steps[{index}].input"), message, blocks: true }
    };
    marked.take(FINDINGS_MAX).map(told).collect()
}

/// Asks the gate about each step whose input is known. A step that would be denied blocks the plan; one that a person would be asked about is told.
pub(crate) async fn look_ahead(work: &SessionWork, plan: &Plan) -> Result<Vec<PlanFinding>, world::Stop> {
    if plan.steps.is_empty() {
        return Ok(Vec::new());
    }
    // What an answer is bound to names the workspace.
    work.host.open_workspace(work.id).await?;
    let mut findings = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        // What is taken from outputs is judged when it is there.
        if !step.input_from.is_empty() {
            continue;
        }
        let input = Value::Object(step.input.clone());
        let request = Request { run_mode: work.run_mode(), ..Request::new(work.pid, Some(work.id), work.zone, &step.tool_ref.name, input) };
        findings.extend(finding_of(index, work.host.foresee(&request, None).await?));
    }
    Ok(findings)
}

/// What is told of a step by what the gate would say of it.
pub(crate) fn finding_of(index: usize, foreseen: Foreseen) -> Option<PlanFinding> {
    let told =
        |message: String, blocks: bool| Some(PlanFinding { critic: POLICY.to_owned(), at: format!("steps[{index}]"), message, blocks });
    match foreseen {
        Foreseen::Allowed => None,
        Foreseen::Reviewed(reasons) => told(format!("a person would be asked: {}", reasons.join("; ")), false),
        // What an earlier step makes is not there yet; what a tool does not take, another critic tells.
        Foreseen::Denied(refusal) if !matches!(refusal.code, Code::Denied | Code::Untrusted | Code::Unsupported) => None,
        Foreseen::Denied(refusal) => told(format!("it would be denied: {}", refusal.reason), true),
    }
}
