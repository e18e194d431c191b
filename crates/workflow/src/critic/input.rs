//! The input of a step against the schema of its tool, before all of it is known.

use super::ToolCatalog;
use crate::findings::blocking;
use crate::plan::PlanStep;
use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;
use std::collections::HashMap;
use std::error::Error;
use world::PlanFinding;

/// The place that a schema is compiled under. Nothing is ever there.
const PLACE: &str = "https://schema.invalid/";
/// Words of a schema that speak of several fields at once, so that they cannot be asked of an input that lacks some.
const JOINT: &[&str] = &[
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "minProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
];

/// Keeps what it compiled: a plan uses the same tools again and again.
#[derive(Default)]
pub(super) struct InputCritic {
    compiled: HashMap<String, Option<(Schemas, SchemaIndex)>>,
}

impl InputCritic {
    pub(super) fn check(&mut self, step: &PlanStep, at: &str, catalog: &dyn ToolCatalog) -> Result<(), PlanFinding> {
        let tool = &step.tool_ref.name;
        let input = Value::Object(step.input.clone());
        if step.input_from.is_empty() {
            return catalog.check_input(tool, &input).map_err(|refusal| {
                let hint = refusal.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                blocking("tool_input", format!("{at}.input"), format!("{}{hint}", refusal.reason))
            });
        }
        let Some(schema) = catalog.input_schema(tool) else { return Ok(()) };
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false)) && schema.get("patternProperties").is_none();
        if let Some(field) = step.input_from.keys().find(|field| is_closed && schema["properties"].get(field.as_str()).is_none()) {
            return Err(blocking("tool_input", format!("{at}.input_from.{field}"), format!("`{tool}` takes no `{field}`")));
        }
        let missing = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let has = |field: &str| step.input.contains_key(field) || step.input_from.contains_key(field);
        if let Some(field) = missing.into_iter().find(|field| !has(field)) {
            return Err(blocking("tool_input", format!("{at}.input"), format!("`{field}` is missing")));
        }
        let compiled = self.compiled.entry(tool.clone()).or_insert_with(|| compile(schema));
        let Some((schemas, index)) = compiled else { return Ok(()) };
        schemas.validate(&input, *index).map_err(|error| {
            // The place alone: what stands there may be a secret, and what is said here is recorded.
            let field = first_place(&error);
            blocking("tool_input", format!("{at}.input{}", field.replace('/', ".")), format!("it does not fit the schema of `{tool}`"))
        })
    }
}

fn first_place(error: &boon::ValidationError<'_, '_>) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.causes.first() {
        innermost = cause;
    }
    innermost.instance_location.to_string()
}

/// A schema for an input that lacks fields. `None` where the schema is none: then only the door can say.
fn compile(schema: &Value) -> Option<(Schemas, SchemaIndex)> {
    let mut schema = schema.clone();
    if let Value::Object(words) = &mut schema {
        words.retain(|word, _| !JOINT.contains(&word.as_str()));
    }
    let mut compiler = Compiler::new();
    compiler.use_loader(Box::new(NoLoader));
    let mut schemas = Schemas::new();
    compiler.add_resource(PLACE, schema).ok()?;
    let index = compiler.compile(PLACE, &mut schemas).ok()?;
    Some((schemas, index))
}

/// A schema refers to nothing outside itself.
struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, _url: &str) -> Result<Value, Box<dyn Error>> {
        Err("a schema refers to nothing outside itself".into())
    }
}
