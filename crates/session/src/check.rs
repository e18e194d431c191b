//! A plan that somebody wants looked at, and not carried out.

use crate::catalog::RegistryCatalog;
use crate::{Foreseen, SessionHost, preflight};
use gate::Request;
use serde_json::Value;
use workflow::{CriticContext, Plan, criticize};
use world::{Pid, PlanCost, PlanFinding, SessionTerms, Stop, ZoneId};

/// What was found of a plan.
#[derive(Clone, Debug)]
pub struct CheckedPlan {
    /// `None` where the text is no plan.
    pub plan: Option<Plan>,
    pub findings: Vec<PlanFinding>,
    /// What it would cost at most.
    pub most: Option<PlanCost>,
}

/// Reads a plan and says what critics and the policy in force have against it. Nothing is recorded and nothing runs. The gate is asked as if the operator made each call: rules
/// about sessions speak when the plan is carried out.
pub async fn check_plan(host: &dyn SessionHost, zone: ZoneId, text: &str, terms: &SessionTerms) -> Result<CheckedPlan, Stop> {
    let plan = match Plan::parse(text, terms.agentic) {
        Ok(plan) => plan,
        Err(findings) => return Ok(CheckedPlan { plan: None, findings, most: None }),
    };
    let most = Some(preflight::most(host.tools(), &plan, &terms.limits, (0, 0)));
    if !terms.critics {
        return Ok(CheckedPlan { plan: Some(plan), findings: Vec::new(), most });
    }
    let mut findings = critics(host, &plan, terms);
    findings.extend(preflight::marked(&plan));
    for (index, step) in plan.steps.iter().enumerate().filter(|(_, step)| step.input_from.is_empty()) {
        let request = Request::new(Pid::OPERATOR, None, zone, &step.tool_ref.name, Value::Object(step.input.clone()));
        let told = |message: String, blocks| PlanFinding { critic: "policy".to_owned(), at: format!("steps[{index}]"), message, blocks };
        match host.foresee(&request).await? {
            Foreseen::Allowed => {}
            Foreseen::Reviewed(reasons) => findings.push(told(format!("a person would be asked: {}", reasons.join("; ")), false)),
            // What a tool does not take, a critic has told already.
            Foreseen::Denied(refusal) if refusal.code == world::Code::BadInput || refusal.code == world::Code::NotFound => {}
            Foreseen::Denied(refusal) => findings.push(told(format!("it would be denied: {}", refusal.reason), true)),
        }
    }
    Ok(CheckedPlan { plan: Some(plan), findings, most })
}

fn critics(host: &dyn SessionHost, plan: &Plan, terms: &SessionTerms) -> Vec<PlanFinding> {
    let catalog = RegistryCatalog(host.tools().clone());
    let (constraints, profile) = (&terms.constraints, &terms.profile);
    let steps_max = terms.agentic.then_some(workflow::AGENTIC_STEPS_MAX);
    let context = CriticContext { catalog: &catalog, constraints, profile, steps_left: terms.limits.max_steps, steps_max };
    criticize(plan, &context)
}
