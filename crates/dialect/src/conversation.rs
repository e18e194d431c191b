//! A conversation with a model, in no vendor's format, and a request that continues it.

use crate::Dialect;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// What one side said before the other answered. Stored: the names on the right stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    #[serde(rename = "by")]
    pub speaker: Speaker,
    pub parts: Vec<TurnPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Speaker {
    /// The person, and the kernel on their behalf.
    #[serde(rename = "user")]
    User,
    #[serde(rename = "brain")]
    Model,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnPart {
    Text(String),
    /// The model wants a call made; `id` joins it with its result.
    Call {
        id: String,
        tool: String,
        input: Value,
    },
    /// The result of a call.
    Result {
        id: String,
        tool: String,
        ok: bool,
        text: String,
    },
    /// What one vendor wants back as it was, such as a signed thought; others are not shown it.
    Raw {
        #[serde(rename = "speech")]
        tag: String,
        value: Value,
    },
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
}

/// A request for the next turn of the model.
pub struct ChatRequest<'a> {
    pub model: &'a str,
    pub system: &'a str,
    pub tools: &'a [ToolSpec],
    pub turns: &'a [Turn],
    pub output_tokens: u64,
    pub quirks: ServerQuirks,
}

/// What one server takes and another does not, learnt from its refusals.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ServerQuirks {
    /// The limit of an answer goes by its newer name.
    pub new_limit_name: bool,
    /// Thoughts can't be had.
    pub no_thoughts: bool,
}

impl Dialect {
    /// Path and body of a request.
    pub fn render_request(self, request: &ChatRequest<'_>) -> (String, Vec<u8>) {
        let (path, body) = self.format().render_request(request);
        (path, body.to_string().into_bytes())
    }

    /// What to do differently, where a refusal says so.
    pub fn learn_quirk(self, refusal: &str, quirks: ServerQuirks) -> Option<ServerQuirks> {
        self.format().learn_quirk(&refusal.to_lowercase(), quirks)
    }
}

/// Bytes that count as a token where nobody counted better.
const TOKEN_BYTES: usize = 4;

/// A quick estimate of a text's tokens. `count::estimate` is closer and slower.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.len() / TOKEN_BYTES + 1) as u64
}

impl Turn {
    pub fn user(text: impl Into<String>) -> Turn {
        Turn { speaker: Speaker::User, parts: vec![TurnPart::Text(text.into())] }
    }

    pub fn model(parts: Vec<TurnPart>) -> Turn {
        Turn { speaker: Speaker::Model, parts }
    }

    pub fn tokens(&self) -> u64 {
        self.parts.iter().map(TurnPart::tokens).sum()
    }

    /// The calls in it, in order: id, tool, input.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.parts.iter().filter_map(|part| match part {
            TurnPart::Call { id, tool, input } => Some((id.as_str(), tool.as_str(), input)),
            _ => None,
        })
    }

    /// Its text without the rest.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(TurnPart::as_text).collect();
        texts.join("\n")
    }
}

impl TurnPart {
    pub fn tokens(&self) -> u64 {
        match self {
            TurnPart::Text(text) => estimate_tokens(text),
            TurnPart::Call { tool, input, .. } => estimate_tokens(tool) + estimate_tokens(&input.to_string()),
            TurnPart::Result { text, .. } => estimate_tokens(text),
            TurnPart::Raw { value, .. } => estimate_tokens(&value.to_string()),
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            TurnPart::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn raw(dialect: Dialect, value: Value) -> TurnPart {
        TurnPart::Raw { tag: dialect.format().raw_tag().to_owned(), value }
    }

    /// What this vendor wants back as it was.
    pub(crate) fn raw_value(&self, dialect: Dialect) -> Option<&Value> {
        match self {
            TurnPart::Raw { tag, value } if tag == dialect.format().raw_tag() => Some(value),
            _ => None,
        }
    }

    /// A call as the model wrote it. Arguments that are no JSON are kept as text: a tool's schema refuses whatever is no object.
    pub(crate) fn call(id: &str, name: &str, arguments: &str) -> TurnPart {
        let input = match arguments.trim() {
            "" => Value::Object(serde_json::Map::new()),
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
        };
        TurnPart::Call { id: id.to_owned(), tool: name.to_owned(), input }
    }
}

/// A tool's name as every vendor takes it: dots are not among their letters.
pub fn vendor_name(tool: &str) -> String {
    tool.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).take(64).collect()
}

/// Arguments as text, whether they came so or as what they are; nothing where there are none. What is neither text nor an object is kept,
/// so that the model is told of its mistake.
pub(crate) fn arguments_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// The input of a call for a vendor that takes nothing but an object, also when the model itself wrote something else.
pub(crate) fn object_input(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { Value::Object(serde_json::Map::new()) }
}

/// A result for a vendor that has no mark for a failed call.
pub(crate) fn marked_result(ok: bool, text: &str) -> String {
    if ok { text.to_owned() } else { format!("error: {text}") }
}

/// The text of a field, or nothing.
pub(crate) fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
