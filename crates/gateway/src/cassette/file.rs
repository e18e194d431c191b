//! The file of a cassette: JSON lines, one exchange after the other, each ended by a line that says so.
//!
//! An exchange is appended in one write when it is over. What a crash left of one has no end and is left out when the file is read.

use super::{ANSWER_HEADERS, Exchange, REQUEST_HEADERS, Recorded, RecordedResponse, Redact, kept_body, kept_path, normal};
use dialect::{Dialect, TimedChunk};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A file that is no cassette, or one of another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct CassetteError {
    pub line: usize,
    pub what: String,
}

const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Cassette {
        version: u64,
    },
    Request {
        n: u64,
        dialect: Dialect,
        method: String,
        path: String,
        headers: BTreeMap<String, String>,
        key: String,
        body: Value,
    },
    Answer {
        n: u64,
        status: u16,
        headers: BTreeMap<String, String>,
    },
    Text {
        n: u64,
        ms: u64,
        text: String,
    },
    /// Bytes that are no text on their own, as when a character is cut in two.
    Hex {
        n: u64,
        ms: u64,
        hex: String,
    },
    End {
        n: u64,
        complete: bool,
    },
}

/// Appends exchanges to a file that only its owner may read.
pub struct Recorder {
    file: File,
    next: u64,
    redact: Redact,
}

impl Recorder {
    /// Opens a cassette, new or to be continued.
    pub fn open(path: &Path, redact: Redact) -> std::io::Result<Recorder> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        if text.is_empty() {
            file.write_all(lines(&[Line::Cassette { version: VERSION }])?.as_bytes())?;
            return Ok(Recorder { file, next: 1, redact });
        }
        read(&text).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))?;
        if !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        let next = text.lines().filter_map(number).max().unwrap_or(0) + 1;
        Ok(Recorder { file, next, redact })
    }

    /// Writes one exchange that is over.
    pub fn record(&mut self, exchange: &Exchange) -> std::io::Result<()> {
        let n = self.next;
        let path = kept_path(&exchange.path);
        let body = kept_body(&exchange.body, &self.redact);
        let answer = exchange.answer.redacted(&self.redact);
        let headers = |all: &[(String, String)], list: &[&str]| -> BTreeMap<String, String> {
            let kept = all.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).filter(|(name, _)| list.contains(&name.as_str()));
            kept.map(|(name, value)| (name, (self.redact)(value))).collect()
        };
        let mut all = vec![
            Line::Request {
                n,
                dialect: exchange.dialect,
                method: exchange.method.clone(),
                key: normal::key(exchange.dialect, &path, &body),
                path,
                headers: headers(&exchange.headers, REQUEST_HEADERS),
                body,
            },
            Line::Answer { n, status: answer.status, headers: headers(&answer.headers, ANSWER_HEADERS) },
        ];
        for TimedChunk { after_ms: ms, bytes } in answer.chunks {
            all.push(match String::from_utf8(bytes) {
                Ok(text) => Line::Text { n, ms, text },
                Err(error) => Line::Hex { n, ms, hex: error.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect() },
            });
        }
        all.push(Line::End { n, complete: answer.complete });
        self.file.write_all(lines(&all)?.as_bytes())?;
        self.next += 1;
        Ok(())
    }
}

fn lines(lines: &[Line]) -> std::io::Result<String> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&serde_json::to_string(line)?);
        text.push('\n');
    }
    Ok(text)
}

/// The number in a line, whatever else it is.
fn number(line: &str) -> Option<u64> {
    let value: Value = serde_json::from_str(line).ok()?;
    value.as_object()?.values().next()?.get("n")?.as_u64()
}

/// The longest cassette that is read: it is held in memory as a whole.
const BYTES_MAX: u64 = 256 << 20;

/// The text of a cassette.
pub fn text(path: &Path) -> std::io::Result<String> {
    let no = |what: String| Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
    // A pipe without a writer would be waited for.
    if !std::fs::metadata(path)?.is_file() {
        return no("it is not a file".to_owned());
    }
    let mut text = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return no(format!("it is longer than {} MiB", BYTES_MAX >> 20));
    }
    String::from_utf8(text).or_else(|_| no("it is not UTF-8 text".to_owned()))
}

/// The exchanges of a file, and how many were cut off.
pub(super) fn read(text: &str) -> Result<(Vec<Recorded>, usize), CassetteError> {
    let mut recorded: Vec<Recorded> = Vec::new();
    let mut open: Option<Recorded> = None;
    let mut torn = 0;
    for (index, text) in text.lines().enumerate() {
        let fail = |what: String| CassetteError { line: index + 1, what };
        let line: Line = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(_) if index == 0 => return Err(fail("this is no cassette".to_owned())),
            // A line that was being written when the recorder died; the next exchange starts with its own request.
            Err(_) => {
                torn += usize::from(open.take().is_none());
                continue;
            }
        };
        match (index, line) {
            (0, Line::Cassette { version: VERSION }) => {}
            (0, Line::Cassette { version }) => return Err(fail(format!("version {version} of cassettes is not known here"))),
            (0, _) | (_, Line::Cassette { .. }) => return Err(fail("a cassette says so in its first line, and only there".to_owned())),
            (_, Line::Request { n, dialect, path, body, .. }) => {
                torn += usize::from(open.is_some());
                let answer = RecordedResponse { status: 0, headers: Vec::new(), chunks: Vec::new(), complete: false };
                // The written key is for people: a request that was edited is found by what it says now.
                let key = normal::key(dialect, &path, &body);
                open = Some(Recorded { n, dialect, path, key, body, answer });
            }
            (_, line) => {
                let Some(entry) = open.as_mut() else { continue };
                match line {
                    Line::Answer { status, headers, .. } => {
                        entry.answer.status = status;
                        entry.answer.headers = headers.into_iter().collect();
                    }
                    Line::Text { ms, text, .. } => entry.answer.chunks.push(TimedChunk { after_ms: ms, bytes: text.into_bytes() }),
                    Line::Hex { ms, hex, .. } => {
                        let bytes = bytes(&hex).ok_or_else(|| fail("`hex` is not hexadecimal".to_owned()))?;
                        entry.answer.chunks.push(TimedChunk { after_ms: ms, bytes });
                    }
                    Line::End { complete, .. } => {
                        entry.answer.complete = complete;
                        recorded.extend(open.take());
                    }
                    Line::Cassette { .. } | Line::Request { .. } => {}
                }
            }
        }
    }
    torn += usize::from(open.is_some());
    if text.is_empty() {
        return Err(CassetteError { line: 1, what: "this is no cassette".to_owned() });
    }
    Ok((recorded, torn))
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?) as u8)).collect()
}
