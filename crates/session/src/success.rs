//! What the task of a session wants of it in the end: criteria over the outputs of all its steps, by their ids.

use crate::outputs::{exact_value, has_mark};
use crate::resume::RecordedEnds;
use crate::work::SessionWork;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};
use workflow::{Criterion, check_success};
use world::{CallId, Event, Fault, FaultKind, SessionMode, StepStatus, Stop};

/// Why a session whose plans are done is not: the first of its task's criteria that does not hold. A dry run has no outputs that could be asked.
pub(crate) fn unmet(work: &SessionWork) -> Result<Option<String>, Stop> {
    let wanted = &work.terms.constraints.success_criteria;
    if wanted.is_empty() || work.terms.mode == SessionMode::DryRun {
        return Ok(None);
    }
    let broken = |why: String| Fault::new(FaultKind::Bug, "a criterion on record cannot be read", why);
    let criteria = wanted.iter().map(|text| Criterion::parse(text)).collect::<Result<Vec<Criterion>, String>>().map_err(broken)?;
    let names: HashSet<&str> = criteria.iter().map(Criterion::first_name).collect();
    let outputs = outputs(work, &names)?;
    Ok(check_success(&criteria, &Value::Object(outputs)).err().map(|error| error.message))
}

/// What these steps gave, each when it ended last. One that did not succeed then gave nothing.
fn outputs(work: &SessionWork, names: &HashSet<&str>) -> Result<Map<String, Value>, Stop> {
    let (mut tools, mut calls) = (BTreeMap::new(), BTreeMap::<String, CallId>::new());
    for event in work.host.ledger().events(work.id, &["step.started", "step.finished"])? {
        match event {
            Event::StepStarted(begun) if names.contains(begun.step.as_str()) => drop(tools.insert(begun.step, begun.tool)),
            Event::StepFinished(end) if names.contains(end.step.as_str()) => {
                match end.call.filter(|_| end.status == StepStatus::Succeeded) {
                    Some(call) => drop(calls.insert(end.step, call)),
                    None => drop(calls.remove(&end.step)),
                }
            }
            _ => {}
        }
    }
    let recorded = RecordedEnds::of(work, &calls.values().copied().collect())?;
    let mut outputs = Map::new();
    for (step, call) in calls {
        let tool = tools.get(&step).map(String::as_str).unwrap_or_default();
        let whole = match exact_value(work, &step, tool, Some(call))? {
            Some(exact) => Some(exact),
            // Of what held a secret that is not kept any more nothing can be said.
            None => recorded.whole_of(work, tool, call)?.filter(|whole| !has_mark(whole)),
        };
        outputs.extend(whole.map(|whole| (step, whole)));
    }
    Ok(outputs)
}
