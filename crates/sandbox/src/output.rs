//! A job's streams on the kernel's side.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

/// What is kept of a job's output for whoever looks while it runs: more than a screen shows.
const TAIL_BYTES: usize = 8 * 1024;

/// The end of what a job has said so far on both streams. **Invariant.** It never holds more than a few kilobytes.
#[derive(Debug, Default)]
pub struct OutputTail(Mutex<Tail>);

#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    /// Something before it was dropped, so it may begin in the middle of a line.
    is_cut: bool,
}

impl OutputTail {
    pub fn add(&self, bytes: &[u8]) {
        let Tail { bytes: kept, is_cut } = &mut *self.0.lock();
        let new = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let over = (kept.len() + new.len()).saturating_sub(TAIL_BYTES);
        *is_cut |= over > 0 || new.len() < bytes.len();
        kept.drain(..over);
        kept.extend(new);
    }

    /// The last lines that are not empty, at most `max`, oldest first. Of a line that was written over, what stands there now.
    pub fn lines(&self, max: usize) -> Vec<String> {
        let (bytes, is_cut): (Vec<u8>, bool) = {
            let tail = self.0.lock();
            (tail.bytes.iter().copied().collect(), tail.is_cut)
        };
        let text = String::from_utf8_lossy(&bytes);
        let whole = if is_cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        let shown = |line: &str| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default().trim_end().to_owned();
        let mut lines: Vec<String> = whole.lines().rev().map(shown).filter(|line| !line.is_empty()).take(max).collect();
        lines.reverse();
        lines
    }
}

/// Reads to the end but keeps no more than `keep` bytes, so that a chatty job neither blocks nor fills memory. True when cut.
pub(crate) async fn collect(fd: OwnedFd, keep: usize, tail: Option<Arc<OutputTail>>) -> io::Result<(Vec<u8>, bool)> {
    let mut pipe = pipe::Receiver::from_owned_fd(fd)?;
    let mut kept = Vec::new();
    let mut cut = false;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let got = pipe.read(&mut buffer).await?;
        if got == 0 {
            return Ok((kept, cut));
        }
        if let Some(tail) = &tail {
            tail.add(&buffer[..got]);
        }
        let wanted = got.min(keep - kept.len());
        kept.extend_from_slice(&buffer[..wanted]);
        cut |= wanted < got;
    }
}

/// Writes all of stdin. A job that ends without reading it is no error.
pub(crate) async fn feed(input: Option<(OwnedFd, Vec<u8>)>) -> io::Result<()> {
    let Some((fd, bytes)) = input else { return Ok(()) };
    let mut pipe = pipe::Sender::from_owned_fd(fd)?;
    match pipe.write_all(&bytes).await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines_and_no_more() {
        let tail = OutputTail::default();
        assert_eq!(tail.lines(3), Vec::<String>::new());
        tail.add(b"one\ntwo\n\nthree\n10%\r20%\r30%");
        assert_eq!(tail.lines(2), ["three", "30%"]);
        assert_eq!(tail.lines(9), ["one", "two", "three", "30%"], "all there is");
        tail.add(&b"x".repeat(TAIL_BYTES));
        assert_eq!(tail.lines(9), Vec::<String>::new(), "a line whose beginning is gone is none");
        tail.add(b"\nlast \xff\r\n");
        assert_eq!(tail.lines(9), ["last \u{fffd}"]);
        assert_eq!(tail.0.lock().bytes.len(), TAIL_BYTES);
        tail.add(&[b'y'; 3 * TAIL_BYTES]);
        assert_eq!(tail.0.lock().bytes.len(), TAIL_BYTES);
    }
}
