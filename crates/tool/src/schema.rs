//! The check of an input against its tool's JSON Schema, with an answer that names the field and says how to fix it.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use world::{Code, Refusal};

pub(crate) fn check(tool: &str, validator: &Validator, schema: &Value, input: &Value) -> Result<(), Refusal> {
    let Some((field, error)) = first(validator, input) else { return Ok(()) };
    Err(Refusal::new(Code::BadInput, format!("`{tool}`: {}", what(&field, &error, "the input"))).hint(fix(&error, schema)))
}

/// What of a value does not fit; `whole` is how the value itself is called.
pub(crate) fn misfit(validator: &Validator, value: &Value, whole: &str) -> Option<String> {
    first(validator, value).map(|(field, error)| what(&field, &error, whole))
}

/// The first by place, so that the same value always has the same answer.
fn first<'a>(validator: &'a Validator, value: &'a Value) -> Option<(String, ValidationError<'a>)> {
    let errors = validator.iter_errors(value).map(|error| (error.instance_path().to_string(), error));
    let (at, error) = errors.min_by(|(a, _), (b, _)| a.cmp(b))?;
    Some((at.trim_start_matches('/').replace('/', "."), error))
}

fn what(field: &str, error: &ValidationError<'_>, whole: &str) -> String {
    let field = if field.is_empty() { whole.to_owned() } else { format!("`{field}`") };
    match error.kind() {
        ValidationErrorKind::Required { property } => format!("{field} lacks `{}`", property.as_str().unwrap_or_default()),
        ValidationErrorKind::AdditionalProperties { unexpected } => format!("{field} has no `{}`", unexpected.join("`, `")),
        ValidationErrorKind::Type { kind } => format!("{field} must be {}", types(kind)),
        _ => format!("{field} does not fit: {}", error.masked()),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => format!("of type {one}"),
        TypeKind::Multiple(several) => {
            format!("of type {}", several.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or "))
        }
    }
}

fn fix(error: &ValidationError<'_>, schema: &Value) -> String {
    if let ValidationErrorKind::AdditionalProperties { .. } | ValidationErrorKind::Required { .. } = error.kind() {
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let fields = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
        let shown: Vec<String> =
            fields.map(|field| if required.contains(&field.as_str()) { field.clone() } else { format!("{field} (optional)") }).collect();
        if !shown.is_empty() {
            return format!("its fields are {}", shown.join(", "));
        }
    }
    "`skep list tools` shows what it takes".to_owned()
}
