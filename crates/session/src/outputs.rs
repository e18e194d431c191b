//! What the steps of a plan run with: the exact text of the plan, and exactly what earlier steps gave.
//!
//! **Invariant.** What the journal holds without its secrets is never run. Where the exact words are not to be had any more, the step that needs them fails and says so.

use crate::planner::plan_gone;
use crate::work::SessionWork;
use journal::REDACTED;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use workflow::{Criterion, Plan, PlanStep, StepFailure, bind_input, step_error};
use world::{ActivePlan, CallId, Event, Fault, FaultKind, StepError, Stop, exact_output};

/// The plan in force.
pub(crate) struct KeptPlan {
    pub plan: Plan,
    /// False where it held a secret and only what is on record of it is left.
    pub is_exact: bool,
}

/// The plan as it was accepted, or what is left of it.
pub(crate) fn read_plan(work: &SessionWork, active: &ActivePlan) -> Result<KeptPlan, Stop> {
    let ledger = work.host.ledger();
    let exact = match &active.original {
        Some(name) => ledger.exact(name)?,
        None => None,
    };
    let is_exact = exact.is_some() || active.original.is_none();
    let bytes = match exact {
        Some(bytes) => bytes,
        None => ledger.blob(&active.blob)?,
    };
    let unreadable = |why: String| Fault::new(FaultKind::Bug, "an accepted plan cannot be read", why);
    let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    match Plan::parse(&text, true) {
        Ok(plan) => Ok(KeptPlan { plan, is_exact }),
        Err(_) if !is_exact => Err(plan_gone().into()),
        Err(findings) => Err(unreadable(format!("{findings:?}")).into()),
    }
}

/// Outputs that inputs of other steps are taken from.
pub(crate) struct StepOutputs {
    is_exact_plan: bool,
    needed: HashSet<String>,
    /// Steps whose outputs criteria are asked of.
    judged: HashSet<String>,
    values: HashMap<String, Value>,
    /// Steps whose output held a secret that is not kept any more.
    gone: HashSet<String>,
}

impl StepOutputs {
    /// For a plan, and what the session's task wants in the end.
    pub fn of(kept: &KeptPlan, wanted: &[String]) -> StepOutputs {
        let needed = kept.plan.steps.iter().flat_map(|step| step.input_from.values()).map(|from| from.step.clone()).collect();
        let own = kept.plan.steps.iter().filter(|step| !step.success_criteria.is_empty()).map(|step| step.step_id.clone());
        let of_task = wanted.iter().filter_map(|text| Criterion::parse(text).ok()).map(|criterion| criterion.first_name().to_owned());
        let judged = own.chain(of_task).collect();
        StepOutputs { is_exact_plan: kept.is_exact, needed, judged, values: HashMap::new(), gone: HashSet::new() }
    }

    /// Whether another step takes its input from this one.
    fn is_needed(&self, step: &str) -> bool {
        self.needed.contains(step)
    }

    /// Whether somebody is to have exactly what this step gave: another step, or a criterion.
    pub fn is_wanted(&self, step: &str) -> bool {
        self.is_needed(step) || self.judged.contains(step)
    }

    /// Keeps what a step gave, exactly. `told` is what its caller heard, or what its record says.
    pub fn take(&mut self, work: &SessionWork, step: &PlanStep, call: Option<CallId>, told: Value) -> Result<(), Stop> {
        if !self.is_needed(&step.step_id) {
            return Ok(());
        }
        let value = match exact_value(work, &step.step_id, &step.tool_ref.name, call)? {
            Some(exact) => exact,
            None if has_mark(&told) => {
                self.gone.insert(step.step_id.clone());
                return Ok(());
            }
            None => told,
        };
        self.values.insert(step.step_id.clone(), value);
        Ok(())
    }

    /// The whole input of a step.
    pub fn bind(&self, step: &PlanStep) -> Result<Value, StepError> {
        let gone = |what: String| {
            let message =
                format!("{what} held a secret, and its exact words are not kept any more: what is on record of them is never run");
            Err(step_error(StepFailure::InputGone, message))
        };
        if !self.is_exact_plan && step.input.values().any(has_mark) {
            return gone("its input".to_owned());
        }
        if let Some(from) = step.input_from.values().find(|from| self.gone.contains(&from.step)) {
            return gone(format!("what step `{}` gave", from.step));
        }
        bind_input(step, &|id| self.values.get(id).cloned())
    }
}

/// What a step gave, as the vault has it.
#[derive(Deserialize)]
struct ExactOutput {
    call: CallId,
    value: Value,
}

/// What a step gave, where its record does not say it exactly.
pub(crate) fn exact_value(work: &SessionWork, step: &str, tool: &str, call: Option<CallId>) -> Result<Option<Value>, Stop> {
    let (ledger, name) = (work.host.ledger(), exact_output(work.id, step));
    if !ledger.journal().vault().has(&name) {
        return Ok(None);
    }
    let Some(bytes) = ledger.exact(&name)? else { return Ok(None) };
    let broken = |error| Fault::new(FaultKind::Bug, "a kept output cannot be read", error);
    let exact: ExactOutput = serde_json::from_slice(&bytes).map_err(broken)?;
    // A step of the same name may have been there before.
    if Some(exact.call) != call {
        return Ok(None);
    }
    Ok(match work.host.tools().get(tool).filter(|tool| tool.is_adapted()) {
        Some(tool) => tool.adapted_output(work.run_mode(), exact.value).ok(),
        None => Some(exact.value),
    })
}

/// Deletes what steps of earlier plans gave, which a crash may have left.
pub(crate) fn forget_earlier(work: &SessionWork) -> Result<(), Stop> {
    let present = work.look(|_, session| session.plan.as_ref().map(|plan| plan.begun.clone()))?;
    for event in work.host.ledger().events(work.id, &["step.started"])? {
        if let Event::StepStarted(begun) = event
            && present.as_ref().is_none_or(|present| !present.contains_key(&begun.step))
        {
            work.host.ledger().delete_original(exact_output(work.id, &begun.step))?;
        }
    }
    Ok(())
}

/// Whether something stands in a value where a secret was.
pub(crate) fn has_mark(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(REDACTED),
        Value::Array(items) => items.iter().any(has_mark),
        Value::Object(fields) => fields.iter().any(|(name, field)| name.contains(REDACTED) || has_mark(field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
