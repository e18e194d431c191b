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
        // A part of a text is not the text, and whoever writes it down would not know.
        if value.is_string() && from.field.is_single() && output.get("truncated") == Some(&Value::Bool(true)) {
            return Err(missing(format!("the `{}` that step `{}` gave is cut short", from.field, from.step)));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use serde_json::json;

    fn step(from: Value) -> PlanStep {
        let plan = json!({ "schema_version": "0.1", "goal": "g", "steps": [
            { "step_id": "a", "tool_ref": { "name": "fs.read" } },
            { "step_id": "b", "tool_ref": { "name": "fs.write" }, "input": { "path": "x" }, "input_from": from } ] });
        Plan::parse(&plan.to_string(), false).unwrap().steps.remove(1)
    }

    fn bound(from: Value, output: Option<Value>) -> Result<Value, String> {
        bind_input(&step(from), &|id| output.clone().filter(|_| id == "a")).map_err(|error| format!("{}: {}", error.code, error.message))
    }

    #[test]
    fn fields_are_taken_from_outputs_whatever_they_are() {
        let output = json!({ "content": "hello", "files": [{ "path": "p" }], "none": null });
        assert_eq!(bound(json!({ "content": "a.content" }), Some(output.clone())), Ok(json!({ "path": "x", "content": "hello" })));
        assert_eq!(
            bound(json!({ "content": "a.files[0].path", "mode": "a.none" }), Some(output.clone())),
            Ok(json!({ "path": "x", "content": "p", "mode": null }))
        );
        assert_eq!(bound(json!({ "all": "a.files" }), Some(output)), Ok(json!({ "path": "x", "all": [{ "path": "p" }] })));
    }

    #[test]
    fn an_output_that_is_not_there_is_told_and_not_quoted() {
        let secret = json!({ "content": "hunter2", "list": [1] });
        assert_eq!(
            bound(json!({ "content": "a.contents" }), Some(secret.clone())),
            Err("missing_output: `input_from.content`: the output of `a` has no `contents`".to_owned())
        );
        assert_eq!(
            bound(json!({ "content": "a.list[1]" }), Some(secret.clone())),
            Err("missing_output: `input_from.content`: the output of `a` has no `list.1`".to_owned())
        );
        assert_eq!(
            bound(json!({ "content": "a.content.deep" }), Some(secret)),
            Err("missing_output: `input_from.content`: the output of `a` has no `content.deep`".to_owned())
        );
        assert_eq!(
            bound(json!({ "content": "a.content" }), None),
            Err("missing_output: `input_from.content`: step `a` has no output".to_owned())
        );
    }

    #[test]
    fn a_text_that_was_cut_short_is_not_handed_on() {
        let output = |truncated| json!({ "content": "the begin", "matches": [{ "path": "p" }], "truncated": truncated });
        assert_eq!(
            bound(json!({ "content": "a.content" }), Some(output(true))),
            Err("missing_output: `input_from.content`: the `content` that step `a` gave is cut short".to_owned())
        );
        assert!(bound(json!({ "content": "a.content" }), Some(output(false))).is_ok());
        assert!(bound(json!({ "content": "a.matches[0].path" }), Some(output(true))).is_ok(), "what is there is whole");
    }

    /// Fields of one output taken many times: an input is no amplifier.
    #[test]
    fn what_is_taken_is_bounded_in_all() {
        let output = json!({ "content": "x".repeat(400_000) });
        let many = |count: usize| Value::Object((0..count).map(|index| (format!("f{index}"), json!("a.content"))).collect());
        assert!(bound(many(2), Some(output.clone())).is_ok());
        let told = bound(many(3), Some(output)).unwrap_err();
        assert!(told.starts_with("bad_input: `input_from.f2`"), "{told}");
    }
}
