//! A streamed answer, decoded into text and calls, whatever the vendor.
//!
//! **Invariant.** An answer counts only when the vendor said that it is complete; a stream that just ends is an error, never half an
//! answer.

use crate::Dialect;
use crate::conversation::TurnPart;
use crate::sse::{EventTooLong, SseReader};
use serde_json::Value;

/// A whole answer.
#[derive(Debug, Default, PartialEq)]
pub struct DecodedAnswer {
    pub parts: Vec<TurnPart>,
    pub stop: StopReason,
    /// What the request took of the context, as the vendor counted it.
    pub input_tokens: Option<u64>,
}

/// Why the model stopped.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It said what it had to say, calls included.
    #[default]
    EndTurn,
    /// It ran out of room in the middle.
    Length,
    /// The vendor's own filter stopped it.
    Withheld(String),
}

/// An answer that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// It ended before it was whole.
    Truncated,
    /// The vendor reported an error in the middle of it.
    Reported { message: String, is_transient: bool },
    /// It is no answer of this vendor.
    Malformed(String),
}

impl DecodeError {
    /// An error whose code is the status of a response.
    pub(crate) fn coded(error: &Value) -> DecodeError {
        let is_transient = error["code"].as_u64().is_some_and(|code| code >= 500 || code == 429);
        DecodeError::Reported { message: error["message"].as_str().unwrap_or_default().to_owned(), is_transient }
    }
}

/// Decodes the events of one vendor's answer.
pub(crate) trait EventDecoder: Send {
    /// Takes an event, and returns the text that it brings. What it brings of a call's arguments is added to `called`.
    fn push(&mut self, event: Value, called: &mut String) -> Result<String, DecodeError>;

    /// The whole answer; `None` where it did not come to its end.
    fn finish(self: Box<Self>) -> Option<DecodedAnswer>;
}

/// Decodes an answer as it comes.
pub struct StreamDecoder {
    events: SseReader,
    decoder: Box<dyn EventDecoder>,
    bytes: usize,
    /// The first bytes, in case no event is among them.
    head: Vec<u8>,
    event_count: usize,
}

/// What some bytes of an answer bring.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StreamedPiece {
    pub text: String,
    /// Of the arguments of calls, one behind the other.
    pub called: String,
}

/// More calls in one answer are a mistake.
pub(crate) const CALLS_MAX: usize = 128;
/// More than any model says at once, thoughts and calls included.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Bytes of what is no answer that an error quotes.
const HEAD_BYTES: usize = 120;
/// Bytes of a refusal that are quoted: of its message, and of a body that has none.
const MESSAGE_BYTES: usize = 4_000;
const BODY_BYTES: usize = 300;

impl From<EventTooLong> for DecodeError {
    fn from(_: EventTooLong) -> DecodeError {
        DecodeError::Malformed("an event does not end".into())
    }
}

impl StreamDecoder {
    pub fn new(dialect: Dialect) -> StreamDecoder {
        let decoder = dialect.format().decoder();
        StreamDecoder { events: SseReader::default(), decoder, bytes: 0, head: Vec::new(), event_count: 0 }
    }

    /// The text that these bytes bring.
    pub fn push(&mut self, bytes: &[u8]) -> Result<String, DecodeError> {
        Ok(self.push_piece(bytes)?.text)
    }

    /// The same with what they bring of calls.
    pub fn push_piece(&mut self, bytes: &[u8]) -> Result<StreamedPiece, DecodeError> {
        self.bytes += bytes.len();
        if self.bytes > ANSWER_BYTES_MAX {
            return Err(DecodeError::Malformed(format!("it is longer than {} MiB", ANSWER_BYTES_MAX >> 20)));
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let events = self.events.feed(bytes)?;
        self.decode(events)
    }

    /// The text that was left, and the whole answer.
    pub fn finish(mut self) -> Result<(String, DecodedAnswer), DecodeError> {
        let events = std::mem::take(&mut self.events).finish();
        let StreamedPiece { text, .. } = self.decode(events)?;
        if self.event_count == 0 && !self.head.is_empty() {
            let head = String::from_utf8_lossy(&self.head);
            return Err(DecodeError::Malformed(format!("it is no stream of events: {}", head.trim())));
        }
        let answer = self.decoder.finish().ok_or(DecodeError::Truncated)?;
        match answer.parts.iter().filter(|part| matches!(part, TurnPart::Call { .. })).count() {
            calls if calls > CALLS_MAX => Err(DecodeError::Malformed(format!("it wants {calls} calls at once"))),
            _ => Ok((text, answer)),
        }
    }

    fn decode(&mut self, events: Vec<String>) -> Result<StreamedPiece, DecodeError> {
        let mut piece = StreamedPiece::default();
        self.event_count += events.len();
        for event in events {
            if event == "[DONE]" {
                continue;
            }
            let event: Value = serde_json::from_str(&event).map_err(|error| DecodeError::Malformed(error.to_string()))?;
            let text = self.decoder.push(event, &mut piece.called)?;
            piece.text.push_str(&text);
        }
        Ok(piece)
    }
}

/// The message of an error body, or its beginning where there is none.
pub fn error_message(body: &[u8]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        let value = value.get(0).unwrap_or(value);
        value["error"]["message"].as_str().or_else(|| value["message"].as_str()).or_else(|| value["error"].as_str())
    });
    match message {
        Some(message) => message[..message.floor_char_boundary(MESSAGE_BYTES)].to_owned(),
        None => String::from_utf8_lossy(&body[..body.len().min(BODY_BYTES)]).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_up_to_its_size_limit() {
        let mut decoder = StreamDecoder::new(Dialect::Chat);
        let piece = format!(":{}\n", "x".repeat((1 << 20) - 2));
        for _ in 0..64 {
            assert_eq!(decoder.push(piece.as_bytes()), Ok(String::new()));
        }
        assert_eq!(decoder.push(b":"), Err(DecodeError::Malformed("it is longer than 64 MiB".into())));
    }
}
