//! An answer in the provider's own words, whole or as a stream.
//!
//! Ids are derived from the request, so the same request gives the same bytes; there is no clock in here.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use super::{Answer, Heard, Part};
use crate::{Ask, Dialect, Reply};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Bytes that are written together, and how long to wait before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub after_ms: u64,
    pub bytes: Vec<u8>,
}

/// An answer ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub status: u16,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub chunks: Vec<Chunk>,
    /// The connection breaks after the last chunk.
    pub cut: bool,
}

/// When the answers claim to be made: fixed, for the same bytes each time.
const CREATED_S: u64 = 1_767_225_600;

impl Rendered {
    pub(super) fn plain(reply: Reply) -> Rendered {
        let chunks = vec![Chunk { after_ms: 0, bytes: reply.body }];
        Rendered { status: reply.status, content_type: reply.content_type, headers: reply.headers, chunks, cut: false }
    }

    /// All bytes in one.
    pub fn body(&self) -> Vec<u8> {
        self.chunks.iter().flat_map(|chunk| chunk.bytes.iter().copied()).collect()
    }
}

pub(super) fn count(dialect: Dialect, tokens: u64) -> Rendered {
    let body = match dialect {
        Dialect::Gemini => json!({"totalTokens": tokens}),
        Dialect::Responses => json!({"object": "response.input_tokens", "input_tokens": tokens}),
        _ => json!({"input_tokens": tokens}),
    };
    Rendered::plain(Reply { status: 200, content_type: "application/json", headers: Vec::new(), body: body.to_string().into_bytes() })
}

/// What the renderers share: the request's facts, and the events as they are made.
struct Make<'a> {
    model: &'a str,
    answer: &'a Answer,
    usage_asked: bool,
    seed: [u8; 32],
    chunks: Vec<Chunk>,
    wait_ms: u64,
}

pub(super) fn answer(dialect: Dialect, path: &str, ask: &Ask, heard: &Heard, body: &[u8], answer: &Answer) -> Rendered {
    let seed = Sha256::digest(body).into();
    let mut make = Make { model: &ask.model, answer, usage_asked: heard.usage_asked, seed, chunks: Vec::new(), wait_ms: 0 };
    if !ask.stream {
        let value = match dialect {
            Dialect::Anthropic => make.anthropic(),
            Dialect::Responses => make.responses(),
            Dialect::Chat => make.chat(),
            Dialect::Gemini => make.gemini(),
        };
        make.wait_ms = answer.parts.iter().map(|part| if let Part::Delay(ms) = part { *ms } else { 0 }).sum();
        make.raw(value.to_string());
        return make.done("application/json");
    }
    match dialect {
        Dialect::Anthropic => make.anthropic_events(),
        Dialect::Responses => make.responses_events(),
        Dialect::Chat => make.chat_events(),
        Dialect::Gemini => {
            let events = path.split(['?', '&']).any(|part| part == "alt=sse");
            make.gemini_events(events);
            if !events {
                return make.done("application/json");
            }
        }
    }
    make.done("text/event-stream")
}

impl Make<'_> {
    fn done(mut self, content_type: &'static str) -> Rendered {
        let cut = self.answer.cut;
        if cut {
            // Half of it, and half an event at that, is what a broken connection leaves.
            let keep = (self.chunks.len() / 2).max(1);
            self.chunks.truncate(keep);
            if let Some(last) = self.chunks.last_mut() {
                last.bytes.truncate(last.bytes.len() / 2);
            }
        }
        Rendered { status: 200, content_type, headers: Vec::new(), chunks: self.chunks, cut }
    }

    fn raw(&mut self, text: String) {
        self.chunks.push(Chunk { after_ms: std::mem::take(&mut self.wait_ms), bytes: text.into_bytes() });
    }

    /// An event that is named by its own `type`.
    fn event(&mut self, event: &Value) {
        self.raw(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message")));
    }

    fn data(&mut self, event: &Value) {
        self.raw(format!("data: {event}\n\n"));
    }

    /// An id such as `msg_01…`: the same for the same request and place in it.
    fn id(&self, prefix: &str, index: usize) -> String {
        let hash = Sha256::new().chain_update(self.seed).chain_update(prefix).chain_update(index.to_le_bytes()).finalize();
        let hex: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        format!("{prefix}{hex}")
    }

    fn parts(&self) -> Vec<Part> {
        self.answer.parts.clone()
    }

    fn calls(&self) -> bool {
        self.answer.parts.iter().any(|part| matches!(part, Part::Call(_)))
    }
}

/// A text in pieces of a few words, as models send it.
fn pieces(text: &str) -> Vec<&str> {
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
