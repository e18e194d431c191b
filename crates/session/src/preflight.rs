//! The policy's critic: what the gate would say of each step, before any of them runs.

use crate::Foreseen;
use crate::work::SessionWork;
use gate::Request;
use serde_json::Value;
use workflow::Plan;
use world::{Code, PlanFinding};

/// The critic's name in what it finds.
const POLICY: &str = "policy";

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
        let at = format!("steps[{index}]");
        let told = |message: String, blocks: bool| PlanFinding { critic: POLICY.to_owned(), at: at.clone(), message, blocks };
        match work.host.foresee(&request).await? {
            Foreseen::Allowed => {}
            Foreseen::Reviewed(reasons) => findings.push(told(format!("a person would be asked: {}", reasons.join("; ")), false)),
            // What an earlier step makes is not there yet; what a tool does not take, another critic tells.
            Foreseen::Denied(refusal) if !matches!(refusal.code, Code::Denied | Code::Untrusted | Code::Unsupported) => {}
            Foreseen::Denied(refusal) => findings.push(told(format!("it would be denied: {}", refusal.reason), true)),
        }
    }
    Ok(findings)
}
