//! Cassettes in use: a writer records what passes, an upstream answers in a provider's place.
//!
//! **Invariant.** When a writer fails, its next request is refused with the reason: a recording has no gaps that nobody knows of.

use super::{Exchange, Player, RecordedResponse, Recorder, Redact};
use crate::aside::aside;
use dialect::{Dialect, TimedChunk};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of one answer that a cassette keeps.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Processes that can be in the middle of one cassette.
const PLAYERS_MAX: usize = 256;

/// A cassette that is being recorded; any number of requests share it.
pub struct CassetteWriter {
    path: PathBuf,
    recorder: Mutex<Recorder>,
    broken: Mutex<Option<String>>,
}

impl CassetteWriter {
    /// A new recording, or one that goes on.
    pub fn open(path: &Path, redact: Redact) -> std::io::Result<CassetteWriter> {
        Ok(CassetteWriter { path: path.to_owned(), recorder: Mutex::new(Recorder::open(path, redact)?), broken: Mutex::new(None) })
    }

    /// Why it takes down nothing more.
    pub fn fault(&self) -> Option<String> {
        self.broken.lock().clone()
    }

    fn record(&self, exchange: &Exchange) -> Result<(), String> {
        let written = aside(|| self.recorder.lock().record(exchange));
        written.map_err(|error| {
            let why = format!("the cassette `{}` cannot be written: {error}", self.path.display());
            self.broken.lock().get_or_insert(why).clone()
        })
    }
}

/// One exchange while it happens.
pub(crate) struct ExchangeRecording {
    cassette: Arc<CassetteWriter>,
    exchange: Exchange,
    bytes: usize,
    last: Instant,
}

impl ExchangeRecording {
    pub fn new(
        cassette: Arc<CassetteWriter>,
        dialect: Dialect,
        method: &str,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
        answer: &HeaderMap,
    ) -> ExchangeRecording {
        let answer = RecordedResponse { status: 0, headers: texts(answer), chunks: Vec::new(), complete: false };
        let exchange =
            Exchange { dialect, method: method.to_owned(), path: path.to_owned(), headers: texts(headers), body: body.to_vec(), answer };
        ExchangeRecording { cassette, exchange, bytes: 0, last: Instant::now() }
    }

    pub fn see(&mut self, data: &Bytes) {
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > ANSWER_BYTES_MAX {
            return;
        }
        let now = Instant::now();
        let after_ms = u64::try_from(now.duration_since(self.last).as_millis()).unwrap_or(u64::MAX);
        self.last = now;
        self.exchange.answer.chunks.push(TimedChunk { after_ms, bytes: data.to_vec() });
    }

    /// Writes it down. An answer that is too long counts as cut off there.
    pub fn end(mut self, status: u16, complete: bool) -> Result<(), String> {
        self.exchange.answer.status = status;
        self.exchange.answer.complete = complete && self.bytes <= ANSWER_BYTES_MAX;
        self.cassette.record(&self.exchange)
    }
}

/// Headers that are text.
fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    headers.iter().filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))).collect()
}

/// A cassette as a provider. Each process plays it from the start.
pub(crate) struct CassetteUpstream {
    file: PathBuf,
    /// Keep the pauses that were recorded.
    timing: bool,
    players: Mutex<BTreeMap<u64, Player>>,
}

impl std::fmt::Debug for CassetteUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CassetteUpstream({})", self.file.display())
    }
}

impl CassetteUpstream {
    pub fn new(file: PathBuf, timing: bool) -> CassetteUpstream {
        CassetteUpstream { file, timing, players: Mutex::default() }
    }

    /// The recorded answer to a request of process `pid`, or why there is none.
    pub fn play(&self, pid: u64, dialect: Dialect, path: &str, body: &[u8], redact: &Redact) -> Result<RecordedResponse, String> {
        let mut players = self.players.lock();
        let player = match players.entry(pid) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let wrong = |error: &dyn std::fmt::Display| format!("the cassette `{}` cannot be played: {error}", self.file.display());
                let read = || {
                    let text = super::text(&self.file).map_err(|error| wrong(&error))?;
                    Player::read(&text, redact.clone()).map_err(|error| wrong(&error))
                };
                entry.insert(aside(read)?)
            }
        };
        let mut answer = player.play(dialect, path, body).map_err(|mismatch| mismatch.to_string())?;
        if !self.timing {
            answer.chunks.iter_mut().for_each(|chunk| chunk.after_ms = 0);
        }
        if players.len() > PLAYERS_MAX {
            players.pop_first();
        }
        Ok(answer)
    }
}
