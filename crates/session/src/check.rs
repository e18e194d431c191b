//! A plan that somebody wants looked at, and not carried out.

use crate::catalog::RegistryCatalog;
use crate::{SessionHost, preflight};
use gate::Request;
use serde_json::Value;
use workflow::{CriticContext, Plan, criticize, plan_documents};
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

/// Looks at each plan of a file. One that holds none is looked at as one, to say so.
pub async fn check_plans(host: &dyn SessionHost, zone: ZoneId, text: &str, terms: &SessionTerms) -> Result<Vec<CheckedPlan>, Stop> {
    let mut plans = plan_documents(text);
    if plans.is_empty() {
        plans.push(String::new());
    }
    let mut checked = Vec::new();
    for plan in plans {
        checked.push(check_plan(host, zone, &plan, terms).await?);
    }
    Ok(checked)
}

/// Reads a plan and says what critics, the policy in force and the terms have against it. Nothing is recorded and nothing runs. The gate is asked as if the operator made each
/// call: rules about sessions speak when the plan is carried out.
async fn check_plan(host: &dyn SessionHost, zone: ZoneId, text: &str, terms: &SessionTerms) -> Result<CheckedPlan, Stop> {
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
        findings.extend(preflight::finding_of(index, host.foresee(&request, Some(terms)).await?));
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
