//! The line `READY <port>` by which a program says on its standard output that its agent listens.
//!
//! **Invariant.** What stands before that line is ordinary output: the end of it is kept, however much there is. What stands behind it is handed
//! back unread. Memory is bounded whatever comes.

use crate::limits::ReadyLimits;
use std::collections::VecDeque;
use std::io::Cursor;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, Chain};

const PREFIX: &[u8] = b"READY ";

/// `READY `, five digits, and spaces that somebody may write around them.
const LINE_BYTES_MAX: usize = 64;

const PIECE_BYTES: usize = 4096;

/// A program that listens.
#[derive(Debug)]
pub struct AgentReady<R> {
    pub port: u16,
    /// What it wrote before that; the last of it, where it was much.
    pub output: Vec<u8>,
    /// How much it wrote before `output`.
    pub dropped_bytes: u64,
    /// What it writes from now on, which somebody has to read, or the program waits.
    pub rest: Chain<Cursor<Vec<u8>>, R>,
}

/// A program that does not come to listen: why, and what it wrote.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct ReadyError {
    pub kind: ReadyErrorKind,
    pub output: Vec<u8>,
    pub dropped_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadyErrorKind {
    #[error("the program did not say `READY` within {0:?}")]
    Timeout(Duration),
    #[error("the program closed its output before it said `READY`")]
    Ended,
    #[error("the program said `READY` without a port that it could listen on: `{0}`")]
    BadPort(String),
    #[error("the program's output cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
}

/// Finds the line in pieces of output, however they are cut.
#[derive(Debug)]
pub struct ReadyScanner {
    output: VecDeque<u8>,
    output_bytes_max: usize,
    dropped_bytes: u64,
    /// The line that is being read, as long as it may be the one.
    line: Vec<u8>,
    /// The rest of this line does not matter.
    is_other_line: bool,
}

impl ReadyScanner {
    pub fn new(output_bytes_max: usize) -> ReadyScanner {
        ReadyScanner { output: VecDeque::new(), output_bytes_max, dropped_bytes: 0, line: Vec::new(), is_other_line: false }
    }

    /// Takes a piece. Once the line is complete: its port, and how many bytes of the piece belong to it or stand before it.
    pub fn push(&mut self, piece: &[u8]) -> Result<Option<(u16, usize)>, ReadyErrorKind> {
        for (at, byte) in piece.iter().enumerate() {
            if let Some(port) = self.take(*byte)? {
                return Ok(Some((port, at + 1)));
            }
        }
        Ok(None)
    }

    /// What was written before the line, and how much before that.
    pub fn into_output(mut self) -> (Vec<u8>, u64) {
        self.release();
        (self.output.into(), self.dropped_bytes)
    }

    fn take(&mut self, byte: u8) -> Result<Option<u16>, ReadyErrorKind> {
        if self.is_other_line {
            self.keep(byte);
            self.is_other_line = byte != b'\n';
            return Ok(None);
        }
        self.line.push(byte);
        let seen = self.line.len().min(PREFIX.len());
        if self.line[..seen] != PREFIX[..seen] {
            self.release();
            self.is_other_line = byte != b'\n';
        } else if byte == b'\n' {
            return port(&self.line[PREFIX.len()..]).map(Some);
        } else if self.line.len() >= LINE_BYTES_MAX {
            return Err(bad_port(&self.line[PREFIX.len()..]));
        }
        Ok(None)
    }

    /// The line so far was ordinary output.
    fn release(&mut self) {
        for byte in std::mem::take(&mut self.line) {
            self.keep(byte);
        }
    }

    fn keep(&mut self, byte: u8) {
        self.output.push_back(byte);
        if self.output.len() > self.output_bytes_max {
            self.output.pop_front();
            self.dropped_bytes += 1;
        }
    }
}

fn port(text: &[u8]) -> Result<u16, ReadyErrorKind> {
    let digits = text.trim_ascii();
    let port = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit)).and_then(|digits| digits.parse().ok());
    port.filter(|port| *port != 0).ok_or_else(|| bad_port(text))
}

fn bad_port(text: &[u8]) -> ReadyErrorKind {
    ReadyErrorKind::BadPort(String::from_utf8_lossy(text.trim_ascii()).escape_debug().to_string())
}

/// Reads a program's standard output up to the line that says where its agent listens.
pub async fn wait_ready<R: AsyncRead + Unpin>(mut stdout: R, limits: &ReadyLimits) -> Result<AgentReady<R>, ReadyError> {
    let mut scanner = ReadyScanner::new(limits.output_bytes_max);
    let found = match tokio::time::timeout(limits.timeout, scan(&mut stdout, &mut scanner)).await {
        Ok(found) => found,
        Err(_) => Err(ReadyErrorKind::Timeout(limits.timeout)),
    };
    match found {
        Ok((port, rest)) => {
            // The line itself is no output.
            scanner.line.clear();
            let (output, dropped_bytes) = scanner.into_output();
            Ok(AgentReady { port, output, dropped_bytes, rest: AsyncReadExt::chain(Cursor::new(rest), stdout) })
        }
        Err(kind) => {
            let (output, dropped_bytes) = scanner.into_output();
            Err(ReadyError { kind, output, dropped_bytes })
        }
    }
}

async fn scan(stdout: &mut (impl AsyncRead + Unpin), scanner: &mut ReadyScanner) -> Result<(u16, Vec<u8>), ReadyErrorKind> {
    let mut piece = [0; PIECE_BYTES];
    loop {
        let count = stdout.read(&mut piece).await?;
        if count == 0 {
            return Err(ReadyErrorKind::Ended);
        }
        if let Some((port, used)) = scanner.push(&piece[..count])? {
            return Ok((port, piece[used..count].to_vec()));
        }
    }
}
