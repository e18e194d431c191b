//! One request and one streamed answer, whatever the vendor.
//!
//! Each speech is a file: how it writes a request, how it reads an answer. **Invariant.** An answer counts only when the vendor said
//! that it is complete; a stream that just ends is a passing fault, never half an answer.

use super::context::clip;
use super::sse::{Lines, TooLong};
use super::turn::{Part, Turn};
use super::{chat, gemini, messages, responses};
use crate::ToolCard;
use crate::model::{Card, Speech};
use serde_json::Value;
use std::borrow::Cow;

/// What is asked of the model.
pub struct Wanted<'a> {
    pub card: &'a Card,
    pub system: &'a str,
    pub tools: &'a [ToolCard],
    pub turns: &'a [Turn],
    pub output_tokens: u64,
    pub quirks: Quirks,
}

/// What one server takes and another does not, learnt from its refusals.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// The limit of an answer goes by its newer name.
    pub newer_limit: bool,
    /// Thoughts can't be had.
    pub no_thoughts: bool,
}

/// A whole answer.
#[derive(Debug, Default, PartialEq)]
pub struct Reply {
    pub parts: Vec<Part>,
    pub stop: Stop,
    /// What the request took of the context, as the vendor counted it.
    pub input_tokens: Option<u64>,
}

/// Why the model stopped.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It said what it had to say, calls included.
    #[default]
    Turn,
    /// It ran out of room in the middle.
    Length,
    /// The vendor's own filter stopped it.
    Withheld(String),
}

/// An answer that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Garbled {
    /// It ended before it was whole.
    Cut,
    /// The vendor reported an error in the middle of it.
    Failed { what: String, passing: bool },
    /// It is no answer of this vendor.
    Strange(String),
}

/// Path and body of a request.
pub fn request(wanted: &Wanted<'_>) -> (String, Vec<u8>) {
    let (path, body) = match wanted.card.speech {
        Speech::Messages => messages::request(wanted),
        Speech::Responses => responses::request(wanted),
        Speech::Chat => chat::request(wanted),
        Speech::Gemini => gemini::request(wanted),
    };
    (path, body.to_string().into_bytes())
}

/// Reads an answer as it comes.
pub struct Reader {
    lines: Lines,
    voice: Voice,
    bytes: usize,
    /// The first bytes, in case no event is among them.
    head: Vec<u8>,
    events: usize,
}

/// More calls in one answer are a mistake.
pub const CALLS_MAX: usize = 128;
/// More than any model says at once, thoughts and calls included.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Bytes of what is no answer that are told.
const HEAD_BYTES: usize = 120;
/// Bytes of an error that are told: of its message, and of a body that has none.
const MESSAGE_BYTES: usize = 4_000;
const BODY_BYTES: usize = 300;

enum Voice {
    Messages(messages::Voice),
    Responses(responses::Voice),
    Chat(chat::Voice),
    Gemini(gemini::Voice),
}

fn endless(_: TooLong) -> Garbled {
    Garbled::Strange("a line without end".into())
}

impl Reader {
    pub fn new(speech: Speech) -> Reader {
        let voice = match speech {
            Speech::Messages => Voice::Messages(messages::Voice::default()),
            Speech::Responses => Voice::Responses(responses::Voice::default()),
            Speech::Chat => Voice::Chat(chat::Voice::default()),
            Speech::Gemini => Voice::Gemini(gemini::Voice::default()),
        };
        Reader { lines: Lines::default(), voice, bytes: 0, head: Vec::new(), events: 0 }
    }

    /// The text that these bytes bring.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<String, Garbled> {
        self.bytes += bytes.len();
        if self.bytes > ANSWER_BYTES_MAX {
            return Err(Garbled::Strange(format!("it is longer than {} MiB", ANSWER_BYTES_MAX >> 20)));
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let events = self.lines.feed(bytes).map_err(endless)?;
        self.hear(events)
    }

    /// What is left to say, and the whole answer.
    pub fn finish(mut self) -> Result<(String, Reply), Garbled> {
        let events = std::mem::take(&mut self.lines).finish().map_err(endless)?;
        let said = self.hear(events)?;
        if self.events == 0 && !self.head.is_empty() {
            return Err(Garbled::Strange(format!("it is no stream of events: {}", String::from_utf8_lossy(&self.head).trim())));
        }
        let reply = match self.voice {
            Voice::Messages(voice) => voice.finish(),
            Voice::Responses(voice) => voice.finish(),
            Voice::Chat(voice) => voice.finish(),
            Voice::Gemini(voice) => voice.finish(),
        };
        let reply = reply.ok_or(Garbled::Cut)?;
        match reply.parts.iter().filter(|part| matches!(part, Part::Call { .. })).count() {
            calls if calls > CALLS_MAX => Err(Garbled::Strange(format!("it wants {calls} calls at once"))),
            _ => Ok((said, reply)),
        }
    }

    fn hear(&mut self, events: Vec<String>) -> Result<String, Garbled> {
        let mut said = String::new();
        self.events += events.len();
        for event in events {
            if event == "[DONE]" {
                continue;
            }
            let event: Value = serde_json::from_str(&event).map_err(|error| Garbled::Strange(error.to_string()))?;
            let text = match &mut self.voice {
                Voice::Messages(voice) => voice.hear(event)?,
                Voice::Responses(voice) => voice.hear(event)?,
                Voice::Chat(voice) => voice.hear(event)?,
                Voice::Gemini(voice) => voice.hear(event)?,
            };
            said.push_str(&text.unwrap_or_default());
        }
        Ok(said)
    }
}

/// The message of an error body, or its beginning where there is none.
pub fn complaint(body: &[u8]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        let value = value.get(0).unwrap_or(value);
        value["error"]["message"].as_str().or_else(|| value["message"].as_str()).or_else(|| value["error"].as_str())
    });
    match message {
        Some(message) => clip(message, MESSAGE_BYTES).to_owned(),
        None => String::from_utf8_lossy(&body[..body.len().min(BODY_BYTES)]).into_owned(),
    }
}

/// A name that every vendor takes: dots are not among their letters.
pub fn name_for(tool: &str) -> String {
    tool.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).take(64).collect()
}

/// A call as the model wrote it. Arguments that are no JSON are kept as text: a tool's schema refuses whatever is no object.
pub fn call(id: &str, name: &str, arguments: &str) -> Part {
    let input = match arguments.trim() {
        "" => Value::Object(serde_json::Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    };
    Part::Call { id: id.to_owned(), tool: name.to_owned(), input }
}

/// Arguments as text, whether they came so or as what they are; nothing where there are none. What is neither text nor an object stays in
/// sight, so that the model hears of its mistake.
pub fn arguments(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// A result for a vendor that has no mark for a failed call.
pub fn told(ok: bool, text: &str) -> String {
    if ok { text.to_owned() } else { format!("error: {text}") }
}

/// The text of a field, or nothing.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_end_is_not_read_to_its_end() {
        let mut reader = Reader::new(Speech::Chat);
        let piece = format!(":{}\n", "x".repeat((1 << 20) - 2));
        for _ in 0..64 {
            assert_eq!(reader.feed(piece.as_bytes()), Ok(String::new()));
        }
        assert_eq!(reader.feed(b":"), Err(Garbled::Strange("it is longer than 64 MiB".into())));
    }
}
