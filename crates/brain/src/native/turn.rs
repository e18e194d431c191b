//! A conversation, in no vendor's format.

use crate::model::Speech;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one side said before the other answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub by: By,
    pub parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The person, and the kernel on their behalf.
    User,
    Brain,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Text(String),
    /// The brain wants a call made; `id` joins it with its result.
    Call {
        id: String,
        tool: String,
        input: Value,
    },
    /// What came of a call.
    Result {
        id: String,
        tool: String,
        ok: bool,
        text: String,
    },
    /// What one vendor wants back as it was, such as a signed thought; others are not shown it.
    Raw {
        speech: String,
        value: Value,
    },
}

/// Bytes that count as a token where nobody counted better.
const TOKEN_BYTES: usize = 4;

/// A figure for a text whose tokens nobody counted.
pub fn tokens(text: &str) -> u64 {
    (text.len() / TOKEN_BYTES + 1) as u64
}

impl Turn {
    pub fn user(text: impl Into<String>) -> Turn {
        Turn { by: By::User, parts: vec![Part::Text(text.into())] }
    }

    pub fn tokens(&self) -> u64 {
        self.parts.iter().map(Part::tokens).sum()
    }

    /// The calls in it, in order.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call { id, tool, input } => Some((id.as_str(), tool.as_str(), input)),
            _ => None,
        })
    }

    /// Its text without the rest.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(Part::as_text).collect();
        texts.join("\n")
    }
}

impl Part {
    pub fn tokens(&self) -> u64 {
        match self {
            Part::Text(text) => tokens(text),
            Part::Call { tool, input, .. } => tokens(tool) + tokens(&input.to_string()),
            Part::Result { text, .. } => tokens(text),
            Part::Raw { value, .. } => tokens(&value.to_string()),
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Part::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn raw(speech: Speech, value: Value) -> Part {
        Part::Raw { speech: speech.name().to_owned(), value }
    }
}

impl Speech {
    pub fn name(self) -> &'static str {
        match self {
            Speech::Messages => "messages",
            Speech::Responses => "responses",
            Speech::Chat => "chat",
            Speech::Gemini => "gemini",
        }
    }
}
