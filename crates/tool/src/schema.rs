//! The check of an input against its tool's JSON Schema, with an answer that names the field and says how to fix it.
//!
//! **Invariant.** What is said about a value never quotes it: an input may hold a secret, and what is said is recorded. **Invariant.** A
//! schema refers to nothing outside itself: no file and no network is read for one.

use boon::{CompileError, Compiler, ErrorKind, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::Value;
use std::error::Error;
use world::{Code, Listing, Refusal, Remedy};

/// The place that a schema is compiled under. Nothing is ever there.
const PLACE: &str = "https://schema.invalid/";

/// A JSON Schema that is ready to check values.
pub(crate) struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Validator {
    /// Or what is wrong with the schema.
    pub(crate) fn new(schema: &Value) -> Result<Validator, String> {
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(Nothing));
        let mut schemas = Schemas::new();
        compiler.add_resource(PLACE, schema.clone()).map_err(|error| flaw(&error))?;
        let index = compiler.compile(PLACE, &mut schemas).map_err(|error| flaw(&error))?;
        Ok(Validator { schemas, index })
    }

    /// What of a value does not fit; `whole` is how the value itself is called.
    pub(crate) fn misfit(&self, value: &Value, whole: &str) -> Option<String> {
        let error = self.schemas.validate(value, self.index).err()?;
        let (field, error) = first(&error);
        Some(what(&field, error, whole))
    }
}

/// What is wrong with a schema, in words of its author.
fn flaw(error: &CompileError) -> String {
    match error {
        CompileError::ValidationError { src, .. } => {
            let (field, error) = first(src);
            what(&field, error, "the schema")
        }
        error => format!("{error:#}").replace(PLACE, ""),
    }
}

/// Loads nothing.
struct Nothing;

impl UrlLoader for Nothing {
    fn load(&self, _url: &str) -> Result<Value, Box<dyn Error>> {
        Err("a schema refers to nothing outside itself".into())
    }
}

pub(crate) fn check(tool: &str, validator: &Validator, schema: &Value, input: &Value) -> Result<(), Refusal> {
    let Err(error) = validator.schemas.validate(input, validator.index) else { return Ok(()) };
    let (field, error) = first(&error);
    let refusal = Refusal::new(Code::BadInput, format!("`{tool}`: {}", what(&field, error, "the input")));
    Err(match fields(error, schema) {
        Some(fields) => refusal.hint(format!("its fields are {fields}")),
        None => refusal.remedy(Remedy::List { what: Listing::Tools }),
    })
}

/// The first by place, so that the same value always has the same answer; and its place, as people write it.
fn first<'e, 's, 'v>(error: &'e ValidationError<'s, 'v>) -> (String, &'e ValidationError<'s, 'v>) {
    let mut all = Vec::new();
    collect(error, &mut all);
    let found = all.into_iter().map(|error| (error.instance_location.to_string(), error)).min_by(|(a, _), (b, _)| a.cmp(b));
    let (at, error) = found.unwrap_or_else(|| (error.instance_location.to_string(), error));
    (at.trim_start_matches('/').replace('/', "."), error)
}

/// Errors that say something themselves. Of alternatives none of which fits, the choice is what is told.
fn collect<'e, 's, 'v>(error: &'e ValidationError<'s, 'v>, all: &mut Vec<&'e ValidationError<'s, 'v>>) {
    let is_choice = matches!(error.kind, ErrorKind::AnyOf | ErrorKind::OneOf(_) | ErrorKind::Not | ErrorKind::Contains);
    if is_choice || error.causes.is_empty() {
        all.push(error);
    } else {
        error.causes.iter().for_each(|cause| collect(cause, all));
    }
}

fn what(field: &str, error: &ValidationError<'_, '_>, whole: &str) -> String {
    let field = if field.is_empty() { whole.to_owned() } else { format!("`{field}`") };
    match &error.kind {
        ErrorKind::Required { want } => format!("{field} lacks `{}`", want.join("`, `")),
        ErrorKind::AdditionalProperties { got } => format!("{field} has no `{}`", got.join("`, `")),
        ErrorKind::Type { want, .. } => {
            format!("{field} must be of type {}", want.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or "))
        }
        kind => format!("{field} does not fit: {}", why(kind)),
    }
}

/// What a schema wants, without what it got.
fn why(kind: &ErrorKind<'_, '_>) -> String {
    match kind {
        ErrorKind::Enum { want } => format!("it must be one of {}", want.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")),
        ErrorKind::Const { want } => format!("it must be {want}"),
        ErrorKind::Format { want, .. } => format!("it must have the format `{want}`"),
        ErrorKind::Pattern { want, .. } => format!("it must match `{want}`"),
        ErrorKind::MinLength { want: 1, .. } => "it must not be empty".to_owned(),
        ErrorKind::MinLength { want, .. } => format!("it must have at least {want} characters"),
        ErrorKind::MaxLength { want, .. } => format!("it must have at most {want} characters"),
        ErrorKind::MinItems { want, .. } => format!("it must have at least {want} items"),
        ErrorKind::MaxItems { want, .. } => format!("it must have at most {want} items"),
        ErrorKind::AdditionalItems { .. } => "it has too many items".to_owned(),
        ErrorKind::UniqueItems { got: [one, other] } => format!("its items {one} and {other} are equal"),
        ErrorKind::Contains | ErrorKind::MinContains { .. } => "it lacks an item that it must contain".to_owned(),
        ErrorKind::MaxContains { want, .. } => format!("it may contain at most {want} items of a kind"),
        ErrorKind::MinProperties { want, .. } => format!("it must have at least {want} fields"),
        ErrorKind::MaxProperties { want, .. } => format!("it must have at most {want} fields"),
        ErrorKind::Dependency { prop, missing } | ErrorKind::DependentRequired { prop, missing } => {
            format!("with `{prop}` it must have `{}`", missing.join("`, `"))
        }
        ErrorKind::Minimum { want, .. } => format!("it must be at least {want}"),
        ErrorKind::Maximum { want, .. } => format!("it must be at most {want}"),
        ErrorKind::ExclusiveMinimum { want, .. } => format!("it must be more than {want}"),
        ErrorKind::ExclusiveMaximum { want, .. } => format!("it must be less than {want}"),
        ErrorKind::MultipleOf { want, .. } => format!("it must be a multiple of {want}"),
        ErrorKind::ContentEncoding { want, .. } => format!("it must be encoded as `{want}`"),
        ErrorKind::ContentMediaType { want, .. } => format!("it must be of the media type `{want}`"),
        ErrorKind::OneOf(Some(_)) => "it fits more than one of the alternatives".to_owned(),
        ErrorKind::AnyOf | ErrorKind::OneOf(None) => "it fits none of the alternatives".to_owned(),
        ErrorKind::Not => "it is what it must not be".to_owned(),
        ErrorKind::FalseSchema => "it may not be there".to_owned(),
        ErrorKind::PropertyName { .. } => "one of its fields may not have that name".to_owned(),
        _ => "the schema does not allow it".to_owned(),
    }
}

/// The fields that a tool takes, where one of them is what is wrong.
fn fields(error: &ValidationError<'_, '_>, schema: &Value) -> Option<String> {
    let (ErrorKind::AdditionalProperties { .. } | ErrorKind::Required { .. }) = error.kind else { return None };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
    let shown: Vec<String> =
        fields.map(|field| if required.contains(&field.as_str()) { field.clone() } else { format!("{field} (optional)") }).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::Validator;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(schema: Value, fits: Value, misfits: Value, wanted: &str) {
        let validator = Validator::new(&schema).unwrap();
        assert_eq!(validator.misfit(&fits, "it"), None, "{schema}");
        let told = validator.misfit(&misfits, "the value");
        assert_eq!(told.as_deref(), Some(wanted), "{schema}");
    }

    /// Nothing of what is told holds `hunter2`.
    #[test]
    fn a_misfit_says_what_is_wanted_and_not_what_it_got() {
        let secret = || json!("hunter2");
        check(json!({"type": "string"}), json!(""), json!(1), "the value must be of type string");
        check(json!({"type": ["integer", "null"]}), json!(null), secret(), "the value must be of type null or integer");
        check(json!({"properties": {"a": {"type": "object"}}}), json!({"a": {}}), json!({"a": "hunter2"}), "`a` must be of type object");
        check(json!({"required": ["a", "b"]}), json!({"a": 1, "b": 1}), json!({"b": 1}), "the value lacks `a`");
        let closed = json!({"properties": {"a": {}}, "additionalProperties": false});
        check(closed, json!({"a": 1}), json!({"c": "hunter2"}), "the value has no `c`");
        check(json!({"enum": ["a", 1]}), json!(1), secret(), "the value does not fit: it must be one of \"a\", 1");
        check(json!({"const": "a"}), json!("a"), secret(), "the value does not fit: it must be \"a\"");
        check(json!({"pattern": "^[0-9]+$"}), json!("12"), secret(), "the value does not fit: it must match `^[0-9]+$`");
        check(json!({"maxLength": 3}), json!("abc"), secret(), "the value does not fit: it must have at most 3 characters");
        check(json!({"minimum": 3}), json!(3), json!(2), "the value does not fit: it must be at least 3");
        check(json!({"items": {"type": "integer"}}), json!([1]), json!([1, "hunter2"]), "`1` must be of type integer");
        let either = json!({"anyOf": [{"type": "integer"}, {"required": ["a"]}]});
        check(either, json!({"a": 1}), json!({}), "the value does not fit: it fits none of the alternatives");
        check(json!({"not": {"type": "string"}}), json!(1), secret(), "the value does not fit: it is what it must not be");
        let referred = json!({"$defs": {"n": {"type": "number"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
        check(referred, json!({"a": 1.5}), json!({"a": "hunter2"}), "`a` must be of type number");
    }

    #[test]
    fn a_schema_that_is_none_says_why() {
        let told = |schema: Value| Validator::new(&schema).err();
        assert_eq!(told(json!({"type": "object"})), None);
        assert_eq!(told(json!(1)).as_deref(), Some("the schema must be of type boolean or object"));
        assert!(told(json!({"type": "thing"})).is_some_and(|why| why.starts_with("`type`")));
        assert!(told(json!({"pattern": "("})).is_some());
        // Neither a file nor a host is asked.
        assert!(
            told(json!({"$ref": "file:///etc/hostname"})).is_some_and(|why| why.ends_with("a schema refers to nothing outside itself"))
        );
        assert!(told(json!({"$ref": "http://127.0.0.1/x"})).is_some_and(|why| why.ends_with("a schema refers to nothing outside itself")));
    }
}
