//! Plans as clients see them: made, looked at, and how far their steps are.

use crate::rpc_error::rpc_error;
use kernel::{Kernel, NewSession};
use report::{ReportedPlan, SessionReport};
use std::path::Path;
use wire::method::plan::{PlanCheckParams, PlanCheckResult, PlanMakeParams, PlanMakeResult, PlanView, StepView};
use wire::{ErrorCode, RpcError};
use workflow::{Plan, PlanStep};
use world::SessionTerms;

/// A plan, with how far its steps are where it is carried out. Of one whose text is kept no longer, the steps that began are left.
pub(crate) fn plan_view(plan: Option<&Plan>, reported: Option<&ReportedPlan>) -> PlanView {
    let Some(plan) = plan else {
        let goal = reported.map(|reported| reported.goal.clone()).unwrap_or_default();
        let begun = reported.into_iter().flat_map(|reported| reported.begun.keys());
        let bare = |name: &String| with_progress(StepView { step: name.clone(), ..StepView::default() }, reported);
        return PlanView { goal, steps: begun.map(bare).collect(), ..PlanView::default() };
    };
    PlanView {
        plan_id: plan.plan_id.clone().unwrap_or_default(),
        goal: plan.goal.clone(),
        assumptions: plan.assumptions.clone(),
        artifacts: plan
            .artifacts
            .iter()
            .map(|one| format!("{} ({}) {}", one.name, one.kind, one.description).trim_end().to_owned())
            .collect(),
        steps: plan.steps.iter().map(|step| with_progress(step_view(step), reported)).collect(),
    }
}

fn step_view(step: &PlanStep) -> StepView {
    StepView {
        step: step.step_id.clone(),
        title: step.title.clone(),
        tool: step.tool_ref.name.clone(),
        after: step.waits_for().into_iter().map(str::to_owned).collect(),
        max_retries: step.max_retries,
        timeout_ms: step.timeout_ms,
        failure_policy: step.failure_policy.as_str().to_owned(),
        ..StepView::default()
    }
}

fn with_progress(step: StepView, reported: Option<&ReportedPlan>) -> StepView {
    let Some(begun) = reported.and_then(|plan| plan.begun.get(&step.step)) else { return step };
    StepView {
        status: Some(begun.status),
        attempts: begun.attempts,
        started_ms: begun.started_ms,
        ended_ms: begun.ended_ms,
        call: begun.call,
        error: begun.error.clone(),
        ..step
    }
}

pub(crate) async fn check(kernel: &Kernel, params: PlanCheckParams) -> Result<PlanCheckResult, RpcError> {
    let checked = kernel.check_plans(Path::new(&params.path), &params.text, &params.terms).await.map_err(rpc_error)?;
    let mut results = checked.into_iter().map(|checked| PlanCheckResult {
        plan: checked.plan.as_ref().map(|plan| plan_view(Some(plan), None)),
        findings: checked.findings,
        most: checked.most,
        further: Vec::new(),
    });
    let first = results.next().ok_or_else(|| RpcError::new(ErrorCode::Internal, "no plan was looked at"))?;
    Ok(PlanCheckResult { further: results.collect(), ..first })
}

/// Has a session plan and do nothing else, and gives its plan.
pub(crate) async fn make(kernel: &Kernel, params: PlanMakeParams) -> Result<PlanMakeResult, RpcError> {
    let terms = SessionTerms { plan_only: true, ..params.terms };
    let added = kernel.add_session(NewSession::new(params.path.into(), params.text, terms)).await.map_err(rpc_error)?;
    let task = kernel.tasks.settled(added.task).await.map_err(rpc_error)?;
    let report = SessionReport::read(&kernel.ledger, task.id, None).map_err(rpc_error)?;
    let findings = report.reviews.last().map(|review| review.findings.clone()).unwrap_or_default();
    let Some(plan) = report.plan_text(&kernel.ledger).map_err(rpc_error)? else {
        let why = match findings.iter().find(|finding| finding.blocks) {
            Some(finding) => format!("{}: {}", finding.critic, finding.message),
            None => task.summary.unwrap_or_else(|| "its planner gave none".to_owned()),
        };
        return Err(RpcError::new(ErrorCode::Failed, format!("{} has made no plan", task.id))
            .why(why)
            .fix(format!("see `skep log {}`", task.id)));
    };
    let text = serde_json::to_string_pretty(&plan.to_value())
        .map_err(|error| RpcError::new(ErrorCode::Internal, "the plan cannot be written").why(error.to_string()))?;
    Ok(PlanMakeResult { text, plan: plan_view(Some(&plan), None), findings, task: Some(task.id) })
}
