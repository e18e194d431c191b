//! A model's answer in no vendor's format, and what the vendors' renderers share: whole or as a stream.
//!
//! Ids are derived from the request, so the same request gives the same bytes; there is no clock in here.

use crate::client_request::ClientRequest;
use crate::decoder::StopReason;
use crate::denial::PlainResponse;
use crate::request::ParsedRequest;
use crate::usage::TokenUsage;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// An answer that a script gives.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    pub parts: Vec<AnswerPart>,
    pub usage: TokenUsage,
    pub stop: StopReason,
    /// The connection breaks in the middle.
    pub is_cut: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPart {
    Text(String),
    Thought(String),
    Call(AnswerCall),
    /// A pause before the next part, in milliseconds.
    Delay(u64),
}

/// A call as the client must be told it.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerCall {
    pub tool: String,
    /// Where the tool comes from, for a client that has a word for it.
    pub namespace: Option<String>,
    pub input: CallInput,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CallInput {
    Json(Value),
    /// For a tool that takes text as it is.
    Text(String),
    /// For the tool by which others are found.
    Search(Value),
}

impl CallInput {
    pub fn text(&self) -> String {
        match self {
            CallInput::Json(value) | CallInput::Search(value) => value.to_string(),
            CallInput::Text(text) => text.clone(),
        }
    }

    /// The input for a vendor that takes nothing but JSON.
    pub(crate) fn json(&self) -> Value {
        match self {
            CallInput::Json(value) | CallInput::Search(value) => value.clone(),
            CallInput::Text(text) => serde_json::json!({"input": text}),
        }
    }
}

/// Bytes that are written together, and how long to wait before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedChunk {
    pub after_ms: u64,
    pub bytes: Vec<u8>,
}

/// An answer ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedAnswer {
    pub status: u16,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub chunks: Vec<TimedChunk>,
    /// The connection breaks after the last chunk.
    pub is_cut: bool,
}

impl From<PlainResponse> for RenderedAnswer {
    fn from(response: PlainResponse) -> RenderedAnswer {
        let PlainResponse { status, content_type, headers, body } = response;
        RenderedAnswer { status, content_type, headers, chunks: vec![TimedChunk { after_ms: 0, bytes: body }], is_cut: false }
    }
}

impl RenderedAnswer {
    /// All bytes in one.
    pub fn body(&self) -> Vec<u8> {
        self.chunks.iter().flat_map(|chunk| chunk.bytes.iter().copied()).collect()
    }
}

/// When the answers claim to be made: fixed, for the same bytes each time.
pub(crate) const CREATED_S: u64 = 1_767_225_600;

/// Writes one answer: the request's facts, and the chunks as they are made.
pub(crate) struct AnswerWriter<'a> {
    pub model: &'a str,
    pub answer: &'a ModelAnswer,
    pub wants_usage: bool,
    /// How long to wait before the next chunk.
    pub wait_ms: u64,
    seed: [u8; 32],
    chunks: Vec<TimedChunk>,
}

impl ModelAnswer {
    /// The answer to a request, as its provider would send it: streamed or whole, as the request asks. `path` includes the query.
    pub fn render(&self, path: &str, parsed: &ParsedRequest, client: &ClientRequest, body: &[u8]) -> RenderedAnswer {
        let seed = Sha256::digest(body).into();
        let (model, wants_usage) = (parsed.model.as_str(), client.wants_usage);
        let mut writer = AnswerWriter { model, answer: self, wants_usage, wait_ms: 0, seed, chunks: Vec::new() };
        let format = parsed.dialect.format();
        if parsed.stream {
            let content_type = format.render_stream(path, &mut writer);
            return writer.finish(content_type);
        }
        let value = format.render_whole(&writer);
        writer.wait_ms = self.parts.iter().map(|part| if let AnswerPart::Delay(ms) = part { *ms } else { 0 }).sum();
        writer.raw(value.to_string());
        writer.finish("application/json")
    }
}

impl AnswerWriter<'_> {
    fn finish(mut self, content_type: &'static str) -> RenderedAnswer {
        let is_cut = self.answer.is_cut;
        if is_cut {
            // Half of it, and half an event at that, is what a broken connection leaves.
            let keep = (self.chunks.len() / 2).max(1);
            self.chunks.truncate(keep);
            if let Some(last) = self.chunks.last_mut() {
                last.bytes.truncate(last.bytes.len() / 2);
            }
        }
        RenderedAnswer { status: 200, content_type, headers: Vec::new(), chunks: self.chunks, is_cut }
    }

    pub fn raw(&mut self, text: String) {
        self.chunks.push(TimedChunk { after_ms: std::mem::take(&mut self.wait_ms), bytes: text.into_bytes() });
    }

    /// An event that is named by its own `type`.
    pub fn event(&mut self, event: &Value) {
        self.raw(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message")));
    }

    /// An event without a name.
    pub fn data(&mut self, event: &Value) {
        self.raw(format!("data: {event}\n\n"));
    }

    /// An id such as `msg_01…`: the same for the same request and place in it.
    pub fn id(&self, prefix: &str, index: usize) -> String {
        let hash = Sha256::new().chain_update(self.seed).chain_update(prefix).chain_update(index.to_le_bytes()).finalize();
        let hex: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        format!("{prefix}{hex}")
    }

    /// Input tokens in all, cached ones included.
    pub fn input_tokens(&self) -> u64 {
        self.answer.usage.input + self.answer.usage.cache_read + self.answer.usage.cache_write
    }

    pub fn has_calls(&self) -> bool {
        self.answer.parts.iter().any(|part| matches!(part, AnswerPart::Call(_)))
    }
}

/// A text in pieces of a few words, as models send it.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    const PIECE_BYTES: usize = 24;
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > PIECE_BYTES {
        let floor = (0..=PIECE_BYTES).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let cut = rest[..floor].rfind(' ').filter(|at| *at > 0).unwrap_or(floor.max(1));
        let (piece, after) = rest.split_at(cut);
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}
