//! The input of a step, whole: what its plan says, and what is taken from outputs of earlier steps.

use crate::failure::{StepFailure, step_error};
use crate::plan::PlanStep;
use serde_json::Value;
use world::StepError;

/// Bytes of an input whose fields come from outputs. An output may be as long as it likes; what is told to another tool is not.
pub const BOUND_INPUT_BYTES_MAX: usize = 1_000_000;

/// Puts together the input of a step. `outputs` gives the output of a step that succeeded, by its id.
pub fn bind_input(step: &PlanStep, outputs: &dyn Fn(&str) -> Option<Value>) -> Result<Value, StepError> {
    let mut input = step.input.clone();
    let mut bytes = 0;
    for (field, from) in &step.input_from {
        let missing = |what: String| step_error(StepFailure::MissingOutput, format!("`input_from.{field}`: {what}"));
        let output = outputs(&from.step).ok_or_else(|| missing(format!("step `{}` has no output", from.step)))?;
        let value = from.field.find(&output).ok_or_else(|| missing(format!("the output of `{}` has no `{}`", from.step, from.field)))?;
        bytes += weight(value);
        if bytes > BOUND_INPUT_BYTES_MAX {
            let what = format!(
                "`input_from.{field}`: what it takes from `{}` makes the input larger than {BOUND_INPUT_BYTES_MAX} bytes",
                from.step
            );
            return Err(step_error(StepFailure::BadInput, what));
        }
        // The plan has the field in one of the two only.
        input.insert(field.clone(), value.clone());
    }
    Ok(Value::Object(input))
}

/// About how many bytes a value is, without writing it.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>() + 2,
    }
}
