//! Recorded model traffic, replayed without a model.
//!
//! A cassette is a file of JSON lines (`docs/models.md`). Requests are found again by a key that leaves out what changes from run to run
//! ([`normal`]); equal keys are answered in the order they were recorded. An answer is the recorded bytes in the recorded chunks. A
//! request that was not recorded is a [`Mismatch`] with the difference to the nearest one, never a guess.
//!
//! **Invariant.** What is written has passed the redaction it was given, and no header that is not on the list is written.
//! *Does not know* where secrets come from: the redaction is the caller's.

mod file;
mod live;
mod nearest;
pub mod normal;
#[cfg(test)]
mod tests;

use dialect::{Dialect, TimedChunk, sse};
pub use file::{CassetteError, Recorder, text};
pub use live::CassetteWriter;
pub(crate) use live::{CassetteUpstream, ExchangeRecording};
use std::{fmt, sync::Arc};

/// Takes the secrets out of a text.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// One request and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    pub dialect: Dialect,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub answer: RecordedResponse,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub chunks: Vec<TimedChunk>,
    /// The answer came to its end; else the connection broke.
    pub complete: bool,
}

/// Headers of a request that are kept: what changes the meaning of an answer. Keys and cookies are not among them.
pub const REQUEST_HEADERS: &[&str] = &["content-type", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta"];
/// Headers of an answer that are kept: what a client acts on.
pub const ANSWER_HEADERS: &[&str] = &["content-type", "retry-after", "retry-after-ms", "x-should-retry"];
/// Parameters of a path that are kept. Gemini's `key` is a credential.
const PARAMETERS: &[&str] = &["alt", "beta"];

/// A recorded exchange, ready to be asked for.
#[derive(Clone, Debug, PartialEq)]
struct Recorded {
    n: u64,
    dialect: Dialect,
    path: String,
    key: String,
    body: serde_json::Value,
    answer: RecordedResponse,
}

/// A cassette being played.
pub struct Player {
    recorded: Vec<Recorded>,
    played: Vec<bool>,
    /// Exchanges that were cut off when the recording ended.
    pub torn: usize,
    redact: Redact,
}

/// One exchange, for whoever looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary<'a> {
    pub n: u64,
    pub dialect: Dialect,
    pub path: &'a str,
    pub model: Option<&'a str>,
    pub status: u16,
    /// Of the answer.
    pub bytes: usize,
    pub ms: u64,
    pub complete: bool,
}

/// A request that is not on the cassette.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub path: String,
    /// How often this very request is on the cassette; all of them have been played.
    pub recorded: usize,
    /// The recorded exchange that is most like it, and the difference, a line each.
    pub nearest: Option<(u64, Vec<String>)>,
}

impl Player {
    /// Reads a cassette. `redact` is the same as when it was recorded.
    pub fn read(text: &str, redact: Redact) -> Result<Player, CassetteError> {
        let (recorded, torn) = file::read(text)?;
        let played = vec![false; recorded.len()];
        Ok(Player { recorded, played, torn, redact })
    }

    /// The recorded answer to this request: the first with its key that was not played yet.
    pub fn play(&mut self, dialect: Dialect, path: &str, body: &[u8]) -> Result<RecordedResponse, Box<Mismatch>> {
        let path = kept_path(path);
        let body = kept_body(body, &self.redact);
        let key = normal::key(dialect, &path, &body);
        let same: Vec<usize> = (0..self.recorded.len()).filter(|at| self.recorded[*at].key == key).collect();
        if let Some(at) = same.iter().copied().find(|at| !self.played[*at]) {
            self.played[at] = true;
            return Ok(self.recorded[at].answer.clone());
        }
        let left: Vec<&Recorded> =
            self.recorded.iter().zip(&self.played).filter(|(_, played)| !**played).map(|(recorded, _)| recorded).collect();
        let nearest = if same.is_empty() { nearest::nearest(dialect, &path, &body, &left) } else { None };
        Err(Box::new(Mismatch { path, recorded: same.len(), nearest }))
    }

    /// What is on the cassette, in the order it was recorded.
    pub fn contents(&self) -> impl Iterator<Item = Summary<'_>> {
        self.recorded.iter().map(|recorded| Summary {
            n: recorded.n,
            dialect: recorded.dialect,
            path: &recorded.path,
            model: recorded.body["model"].as_str(),
            status: recorded.answer.status,
            bytes: recorded.answer.chunks.iter().map(|chunk| chunk.bytes.len()).sum(),
            ms: recorded.answer.chunks.iter().map(|chunk| chunk.after_ms).sum(),
            complete: recorded.answer.complete,
        })
    }

    /// Exchanges on the cassette, and how many of them have not been played.
    pub fn count(&self) -> (usize, usize) {
        (self.recorded.len(), self.played.iter().filter(|played| !**played).count())
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.recorded, &self.nearest) {
            (0, Some((n, lines))) => {
                write!(f, "this request to `{}` was not recorded; it differs from request {n} in:", self.path)?;
                lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            (0, None) => write!(f, "this request to `{}` was not recorded, and every recorded one has been played", self.path),
            (times, _) => write!(f, "this request to `{}` was recorded {times} times and is asked for once more", self.path),
        }
    }
}

impl std::error::Error for Mismatch {}

impl RecordedResponse {
    /// The same answer without its secrets. Where there are none, every byte and every chunk stays.
    fn redacted(&self, redact: &Redact) -> RecordedResponse {
        let bytes: Vec<u8> = self.chunks.iter().flat_map(|chunk| chunk.bytes.iter().copied()).collect();
        let text = String::from_utf8_lossy(&bytes);
        let clean = redact(&text);
        if clean == text {
            return self.clone();
        }
        // The old places of the cuts mean nothing in the new text; an event each is how it came, more or less.
        let mut chunks: Vec<TimedChunk> = Vec::new();
        for event in sse::split_events(&clean) {
            let after_ms = self.chunks.get(chunks.len()).map_or(0, |chunk| chunk.after_ms);
            chunks.push(TimedChunk { after_ms, bytes: event.as_bytes().to_vec() });
        }
        RecordedResponse { chunks, ..self.clone() }
    }
}

/// The path with those of its parameters that are no secrets.
fn kept_path(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let kept: Vec<&str> = query.split('&').filter(|pair| PARAMETERS.contains(&pair.split('=').next().unwrap_or_default())).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// The request as JSON without its secrets; what is not JSON is one text.
fn kept_body(body: &[u8], redact: &Redact) -> serde_json::Value {
    let mut value = serde_json::from_slice(body).unwrap_or_else(|_| serde_json::Value::String(String::from_utf8_lossy(body).into_owned()));
    redacted(&mut value, redact);
    value
}

fn redacted(value: &mut serde_json::Value, redact: &Redact) {
    match value {
        serde_json::Value::String(text) => *text = redact(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| redacted(item, redact)),
        serde_json::Value::Object(members) => members.values_mut().for_each(|member| redacted(member, redact)),
        _ => {}
    }
}
