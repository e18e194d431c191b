//! Server-sent events, taken apart as they come.
//!
//! Lines end in CR, LF or CRLF; a comment starts with a colon; data may span lines and chunks. Nothing is kept but the name of the
//! field that is being read, so an event of any size costs no memory.

/// A part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of the event's data. Lines of data are joined by a line feed.
    Data(&'a [u8]),
    /// The event is complete.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In a field's name, of which this many bytes are in `name`.
    Name(usize),
    /// Behind `data:`, where one space is not part of the data.
    Space,
    Data,
    /// In a line that is of no interest.
    Skip,
}

/// The longest name that matters is `data`.
const NAME_MAX: usize = 8;

/// Splits a stream of bytes into pieces of events.
#[derive(Clone, Debug)]
pub struct SseSplitter {
    at: At,
    name: [u8; NAME_MAX],
    /// The last byte was a CR, so an LF now belongs to the same line end.
    cr: bool,
    /// The event has data.
    data: bool,
    /// Bytes of a byte order mark that were stepped over; 3 when the start is past.
    bom: usize,
}

impl Default for SseSplitter {
    fn default() -> Self {
        SseSplitter { at: At::Name(0), name: [0; NAME_MAX], cr: false, data: false, bom: 0 }
    }
}

impl SseSplitter {
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Piece<'_>)) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.bom < 3 {
                if byte == [0xef, 0xbb, 0xbf][self.bom] {
                    self.bom += 1;
                    rest = after;
                    continue;
                }
                self.bom = 3;
            }
            if std::mem::take(&mut self.cr) && byte == b'\n' {
                rest = after;
                continue;
            }
            if byte == b'\n' || byte == b'\r' {
                self.cr = byte == b'\r';
                self.line_end(&mut each);
                rest = after;
                continue;
            }
            match self.at {
                At::Name(len) => {
                    self.named(len, byte, &mut each);
                    rest = after;
                }
                At::Space => {
                    self.at = At::Data;
                    if byte == b' ' {
                        rest = after;
                    }
                }
                At::Data | At::Skip => {
                    let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
                    let (line, after) = rest.split_at(end);
                    if self.at == At::Data {
                        each(Piece::Data(line));
                    }
                    rest = after;
                }
            }
        }
    }

    /// The stream is over. An event without its blank line counts: the provider said it, even if the client ignores it.
    pub fn finish(mut self, mut each: impl FnMut(Piece<'_>)) {
        if std::mem::take(&mut self.data) {
            each(Piece::End);
        }
    }

    fn named(&mut self, len: usize, byte: u8, each: &mut impl FnMut(Piece<'_>)) {
        if byte == b':' {
            self.at = if &self.name[..len] == b"data" { At::Space } else { At::Skip };
            if self.at == At::Space && std::mem::replace(&mut self.data, true) {
                each(Piece::Data(b"\n"));
            }
        } else if len < NAME_MAX {
            self.name[len] = byte;
            self.at = At::Name(len + 1);
        } else {
            self.at = At::Skip;
        }
    }

    fn line_end(&mut self, each: &mut impl FnMut(Piece<'_>)) {
        if self.at == At::Name(0) && std::mem::take(&mut self.data) {
            each(Piece::End);
        }
        self.at = At::Name(0);
    }
}

/// A text cut behind each blank line, so that every part is an event as it was sent.
pub fn split_events(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let ends = ["\n\n", "\r\n\r\n"].iter().filter_map(|blank| Some(rest.find(blank)? + blank.len()));
        let (part, after) = rest.split_at(ends.min().unwrap_or(rest.len()));
        parts.push(part);
        rest = after;
    }
    parts
}

/// The longest event that is kept; a longer one is no event of any model.
const EVENT_BYTES_MAX: usize = 32 << 20;

/// Collects whole events.
#[derive(Debug, Default)]
pub struct SseReader {
    splitter: SseSplitter,
    data: Vec<u8>,
}

/// An event that does not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTooLong;

impl SseReader {
    /// The data of every event that ends in these bytes. Names are left out: each vendor repeats them in the data.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, EventTooLong> {
        let SseReader { splitter, data } = self;
        let mut events = Vec::new();
        splitter.feed(bytes, |piece| collect(piece, data, &mut events));
        if self.data.len() > EVENT_BYTES_MAX { Err(EventTooLong) } else { Ok(events) }
    }

    /// The last event, where a server ended without the empty line that closes it.
    pub fn finish(mut self) -> Vec<String> {
        let mut events = Vec::new();
        self.splitter.finish(|piece| collect(piece, &mut self.data, &mut events));
        events
    }
}

/// An event without data is none.
fn collect(piece: Piece<'_>, data: &mut Vec<u8>, events: &mut Vec<String>) {
    match piece {
        Piece::Data(bytes) => data.extend_from_slice(bytes),
        Piece::End => {
            let event = std::mem::take(data);
            if !event.is_empty() {
                events.push(String::from_utf8(event).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<String> {
        let (mut sse, mut data, mut events) = (SseSplitter::default(), Vec::new(), Vec::new());
        let mut each = |piece: Piece<'_>| match piece {
            Piece::Data(bytes) => data.extend_from_slice(bytes),
            Piece::End => events.push(String::from_utf8_lossy(&std::mem::take(&mut data)).into_owned()),
        };
        for chunk in chunks {
            sse.feed(chunk, &mut each);
        }
        sse.finish(&mut each);
        events
    }

    #[test]
    fn lines_end_in_three_ways_and_data_spans_lines() {
        let text = "\u{feff}: hello\r\nevent: a\rid:7\ndata: {\"x\":\r\ndata:1}\r\n\r\n:\n\ndata:  two\ndatax: no\nretry: 3\ndata\n\n\n\ndata: last";
        let expected = vec!["{\"x\":\n1}".to_owned(), " two".into(), "last".into()];
        assert_eq!(events(&[text.as_bytes()]), expected);
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(events(&single), expected);
        for cut in 0..text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(events(&[a, b]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = "event: a\r\ndata: {\"x\":1}\r\n\r\n: ping\n\ndata:\n\ndata: one\ndata: two\n\ndata:end";
        let want = vec!["{\"x\":1}".to_owned(), "one\ntwo".to_owned(), "end".to_owned()];
        for size in 1..text.len() {
            let mut reader = SseReader::default();
            let mut found: Vec<String> = text.as_bytes().chunks(size).flat_map(|piece| reader.feed(piece).unwrap()).collect();
            found.extend(reader.finish());
            assert_eq!(found, want, "in pieces of {size}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mib = "x".repeat(1 << 20);
        // One line that does not end.
        let mut reader = SseReader::default();
        assert_eq!(reader.feed(b"data:"), Ok(Vec::new()));
        assert!((0..32).all(|_| reader.feed(mib.as_bytes()) == Ok(Vec::new())));
        assert_eq!(reader.feed(b"x"), Err(EventTooLong));
        // Each of these lines ends, and the event does not. The line feeds between them count.
        let line = format!("data: {}\n", &mib[1..]);
        let mut reader = SseReader::default();
        assert!((0..32).all(|_| reader.feed(line.as_bytes()) == Ok(Vec::new())));
        assert_eq!(reader.feed(line.as_bytes()), Err(EventTooLong));
        // What is no data costs nothing, however long it is.
        let mut reader = SseReader::default();
        assert!((0..40).all(|_| reader.feed(mib.as_bytes()) == Ok(Vec::new())));
    }
}
