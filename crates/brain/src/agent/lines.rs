//! The lines that a program writes, each of at most so many bytes.

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest line that is read: above any answer of a model, below what hurts.
const LINE_BYTES_MAX: usize = 16 << 20;

pub(super) struct LineReader {
    from: Box<dyn AsyncRead + Send + Unpin>,
    held: Vec<u8>,
    /// How much of it was looked through for an end of line.
    seen: usize,
    buffer: Vec<u8>,
}

impl LineReader {
    pub fn new(from: Box<dyn AsyncRead + Send + Unpin>) -> LineReader {
        LineReader { from, held: Vec::new(), seen: 0, buffer: vec![0; 64 << 10] }
    }

    /// The next line; `None` at the end. Whoever stops waiting loses nothing. What stands behind the last end of line is no line.
    pub async fn next(&mut self) -> Result<Option<String>, String> {
        loop {
            if let Some(at) = self.held[self.seen..].iter().position(|byte| *byte == b'\n') {
                let rest = self.held.split_off(self.seen + at + 1);
                let line = std::mem::replace(&mut self.held, rest);
                self.seen = 0;
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            self.seen = self.held.len();
            if self.held.len() > LINE_BYTES_MAX {
                return Err(format!("its program wrote a line of more than {} MiB", LINE_BYTES_MAX >> 20));
            }
            match self.from.read(&mut self.buffer).await {
                Ok(0) => return Ok(None),
                Ok(got) => self.held.extend_from_slice(&self.buffer[..got]),
                Err(error) => return Err(format!("the output of its program cannot be read: {error}")),
            }
        }
    }
}
