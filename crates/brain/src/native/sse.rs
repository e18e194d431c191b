//! Server-sent events, read from pieces of any size.

/// The longest line that is read; a longer one is no event of any model.
const LINE_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    /// How much of the rest has no line end in it.
    seen: usize,
    data: String,
}

/// A stream that is no stream of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLong;

impl Lines {
    /// The data of every event that ends in these bytes. Names are left out: each vendor repeats them in the data.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, TooLong> {
        let mut events = Vec::new();
        self.rest.extend_from_slice(bytes);
        let (mut from, mut seen) = (0, self.seen);
        while let Some(end) = self.rest[seen..].iter().position(|byte| *byte == b'\n').map(|at| seen + at) {
            let line = String::from_utf8_lossy(&self.rest[from..end]).into_owned();
            from = end + 1;
            seen = from;
            let line = line.strip_suffix('\r').unwrap_or(&line);
            if line.is_empty() {
                if !self.data.is_empty() {
                    events.push(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            }
        }
        self.rest.drain(..from);
        self.seen = self.rest.len();
        if self.rest.len() + self.data.len() > LINE_MAX { Err(TooLong) } else { Ok(events) }
    }

    /// The last event, where a server ended without the empty line that closes it.
    pub fn finish(mut self) -> Result<Vec<String>, TooLong> {
        let mut events = self.feed(b"\n\n")?;
        events.retain(|event| !event.is_empty());
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = "event: a\r\ndata: {\"x\":1}\r\n\r\n: ping\n\ndata: one\ndata: two\n\ndata:end";
        let want = vec!["{\"x\":1}".to_owned(), "one\ntwo".to_owned(), "end".to_owned()];
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut found: Vec<String> = text.as_bytes().chunks(size).flat_map(|piece| lines.feed(piece).unwrap()).collect();
            found.extend(lines.finish().unwrap());
            assert_eq!(found, want, "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_or_an_event_without_end_is_none() {
        let piece = [b'x'; 1 << 20];
        let mut lines = Lines::default();
        assert!((0..32).all(|_| lines.feed(&piece) == Ok(Vec::new())));
        assert_eq!(lines.feed(b"x"), Err(TooLong));
        // Each of these lines ends, and the event does not.
        let piece = format!("data: {}\n", "x".repeat((1 << 20) - 7));
        let mut lines = Lines::default();
        assert!((0..32).all(|_| lines.feed(piece.as_bytes()) == Ok(Vec::new())));
        assert_eq!(lines.feed(piece.as_bytes()), Err(TooLong));
    }
}
