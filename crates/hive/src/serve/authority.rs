//! Mends the `:authority` that clients of a unix socket send.
//!
//! Since 1.57 gRPC's C core, and so every client in Python, names the path of the socket there, percent-encoded (`tmp%2Fcore.sock`). That is no
//! authority of a URI, and h2 refuses each request with a PROTOCOL_ERROR that nobody understands. Nothing here looks at the authority, so a byte
//! that it may not have becomes a dash, on its way in.
//!
//! **Invariant.** No byte is added, removed or held back, and none changes but in a value of `:authority` that is written out: what compresses
//! headers stays in step. An authority that is Huffman-coded stays as it is, and is refused if it is wrong.

const PREFACE_BYTES: usize = 24;
const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
const AUTHORITY: &[u8] = b":authority";
/// The place of `:authority` in the table that HTTP/2 begins with.
const AUTHORITY_INDEX: usize = 1;

/// Reads a client's bytes along, in whatever pieces they come.
#[derive(Debug)]
pub(super) struct AuthorityMender {
    place: Place,
    /// Of the current frame, behind its head.
    frame_left: usize,
    /// Bytes at the end of the frame that are no headers.
    padding: usize,
    field: Field,
}

/// Where in the frames the next byte stands.
#[derive(Debug)]
enum Place {
    Preface(usize),
    Head([u8; FRAME_HEAD_BYTES], usize),
    /// The length of the padding, then a priority of this many bytes.
    PadLength(usize),
    Priority(usize),
    Fields,
    Other,
}

/// Where in a header the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Start,
    /// The rest of a number that names no header we look for; then what follows.
    Number(Next),
    /// The rest of the number of a string's length: so far, shifted so far; then the string.
    Length {
        value: usize,
        shift: u32,
        of: Text,
    },
    NameLength,
    ValueLength {
        is_authority: bool,
    },
    Bytes {
        left: usize,
        of: Text,
    },
}

/// What follows a number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Header,
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Text {
    /// How many bytes of it are those of `:authority`; `None` once one is not.
    Name {
        matched: Option<usize>,
    },
    Value {
        is_mended: bool,
    },
}

impl Default for AuthorityMender {
    fn default() -> AuthorityMender {
        AuthorityMender { place: Place::Preface(PREFACE_BYTES), frame_left: 0, padding: 0, field: Field::Start }
    }
}

impl AuthorityMender {
    pub(super) fn pass(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            // What is no header is passed over as a whole.
            let skipped = match &mut self.place {
                Place::Preface(left) => {
                    let count = (*left).min(bytes.len() - at);
                    *left -= count;
                    count
                }
                Place::Other => {
                    let count = self.frame_left.min(bytes.len() - at);
                    self.frame_left -= count;
                    count
                }
                _ => {
                    self.take(&mut bytes[at]);
                    1
                }
            };
            at += skipped;
            self.go_on();
        }
    }

    /// Enters the next frame where one has ended.
    fn go_on(&mut self) {
        let is_over = match self.place {
            Place::Preface(left) => left == 0,
            Place::Head(..) => false,
            _ => self.frame_left == 0,
        };
        if is_over {
            self.place = Place::Head([0; FRAME_HEAD_BYTES], 0);
        }
    }

    fn take(&mut self, byte: &mut u8) {
        if let Place::Head(head, count) = &mut self.place {
            head[*count] = *byte;
            *count += 1;
            if *count == FRAME_HEAD_BYTES {
                let head = *head;
                self.enter(head);
            }
            return;
        }
        self.frame_left -= 1;
        match &mut self.place {
            Place::PadLength(priority) => {
                let priority = *priority;
                self.padding = usize::from(*byte);
                self.place = if priority > 0 { Place::Priority(priority) } else { self.fields() };
            }
            Place::Priority(left) => {
                *left -= 1;
                if *left == 0 {
                    self.place = self.fields();
                }
            }
            Place::Fields => {
                self.field = self.field.after(byte);
                self.place = self.fields();
            }
            Place::Preface(_) | Place::Head(..) | Place::Other => {}
        }
    }

    /// Headers, as long as what is left is more than padding.
    fn fields(&self) -> Place {
        if self.frame_left > self.padding { Place::Fields } else { Place::Other }
    }

    fn enter(&mut self, head: [u8; FRAME_HEAD_BYTES]) {
        let [high, middle, low, kind, flags, ..] = head;
        self.frame_left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.padding = 0;
        let priority = if flags & PRIORITY != 0 { 5 } else { 0 };
        self.place = match kind {
            HEADERS => {
                // A block that was cut off is not continued by another.
                self.field = Field::Start;
                if flags & PADDED != 0 {
                    Place::PadLength(priority)
                } else if priority > 0 {
                    Place::Priority(priority)
                } else {
                    Place::Fields
                }
            }
            CONTINUATION => Place::Fields,
            _ => Place::Other,
        };
    }
}

impl Field {
    /// Where the byte behind this one stands. Changes it if it is one that an authority may not have.
    fn after(self, byte: &mut u8) -> Field {
        match self {
            Field::Start => started(*byte),
            Field::Number(next) if *byte & 0x80 != 0 => Field::Number(next),
            Field::Number(Next::Header) => Field::Start,
            Field::Number(Next::Value) => Field::ValueLength { is_authority: false },
            // A coded name is another one for us: the C core codes none.
            Field::NameLength => {
                let matched = (*byte & 0x80 == 0).then_some(0);
                sized(usize::from(*byte & 0x7f), Text::Name { matched })
            }
            Field::ValueLength { is_authority } => {
                let is_mended = is_authority && *byte & 0x80 == 0;
                sized(usize::from(*byte & 0x7f), Text::Value { is_mended })
            }
            Field::Length { value, shift, of } => {
                // A length that no frame has wraps or stops here, and h2 refuses it.
                let value = value.saturating_add(usize::from(*byte & 0x7f).checked_shl(shift).unwrap_or(usize::MAX));
                match *byte & 0x80 {
                    0 => text(value, of),
                    _ => Field::Length { value, shift: shift.saturating_add(7), of },
                }
            }
            Field::Bytes { left, of } => text(left - 1, of.after(byte)),
        }
    }
}

/// The first byte of a header says what it is, and may begin the number of a known name.
fn started(byte: u8) -> Field {
    let (mask, is_whole) = match byte {
        0x80.. => (0x7f, true),
        0x40.. => (0x3f, false),
        0x20.. => (0x1f, true),
        _ => (0x0f, false),
    };
    let number = byte & mask;
    match (is_whole, number) {
        (true, number) if number == mask => Field::Number(Next::Header),
        (true, _) => Field::Start,
        (false, 0) => Field::NameLength,
        (false, number) if number == mask => Field::Number(Next::Value),
        (false, number) => Field::ValueLength { is_authority: usize::from(number) == AUTHORITY_INDEX },
    }
}

/// A string whose length begins with this number of seven bits.
fn sized(value: usize, of: Text) -> Field {
    if value == 0x7f { Field::Length { value, shift: 0, of } } else { text(value, of) }
}

/// A string of which so many bytes are left.
fn text(left: usize, of: Text) -> Field {
    match (left, of) {
        (0, Text::Name { matched }) => Field::ValueLength { is_authority: matched == Some(AUTHORITY.len()) },
        (0, Text::Value { .. }) => Field::Start,
        _ => Field::Bytes { left, of },
    }
}

impl Text {
    fn after(self, byte: &mut u8) -> Text {
        match self {
            Text::Name { matched } => {
                let matched = matched.filter(|matched| AUTHORITY.get(*matched) == Some(byte)).map(|matched| matched + 1);
                Text::Name { matched }
            }
            Text::Value { is_mended: true } if !byte.is_ascii_alphanumeric() && !b".-_:".contains(byte) => {
                *byte = b'-';
                self
            }
            Text::Value { .. } => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What grpc 1.85 for Python sends on a unix socket for `GetProcessInfo`, up to its first headers and a frame behind them.
    const PYTHON: &[u8] =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00$\x04\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x04\x00@\
        \x00\x00\x00\x05\x00@\x00\x00\x00\x06\x00\x00@\x00\xfe\x03\x00\x00\x00\x01\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00?\x00\x01\x00\x00\
        \xb3\x01\x04\x00\x00\x00\x01@\x05:path+/hivekernel.core.CoreService/GetProcessInfo@\n:authority\x12tmp%2Frawtest.sock\x83\x86@\x0c\
        content-type\x10application/grpc@\x02te\x08trailers@\x14grpc-accept-encoding\x17identity, deflate, gzip@\x0cgrpc-timeout\x051510m\
        \x00\x00\x04\x08\x00\x00\x00\x00\x01%%%%";

    fn mended(bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let mut mender = AuthorityMender::default();
        bytes.chunks_mut(piece).for_each(|piece| mender.pass(piece));
        bytes
    }

    fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
        let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    }

    #[test]
    fn the_authority_of_a_python_client_is_mended_in_pieces_of_any_size() {
        let expected = replaced(PYTHON, b"tmp%2Frawtest.sock", b"tmp-2Frawtest.sock");
        for piece in 1..PYTHON.len() {
            assert_eq!(mended(PYTHON, piece), expected, "in pieces of {piece}");
        }
    }

    /// A frame behind the preface.
    fn framed(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, 1];
        bytes.extend(payload);
        bytes
    }

    fn check(frames: &[Vec<u8>], from: &[u8], to: &[u8]) {
        let bytes = [vec![0; PREFACE_BYTES], frames.concat()].concat();
        for piece in [1, 2, 5, bytes.len()] {
            assert_eq!(mended(&bytes, piece), replaced(&bytes, from, to), "{frames:?}");
        }
    }

    #[test]
    fn headers_are_found_in_every_form_that_frames_have() {
        // The name as a number, without and with indexing.
        for first in [0x41, 0x01, 0x11] {
            check(&[framed(HEADERS, 4, &[&[first, 3], &b"a%b"[..]].concat())], b"a%b", b"a-b");
        }
        // Behind padding and a priority, and not in the padding itself.
        let padded = [&[4, 9, 9, 9, 9, 9, 0x41, 3], &b"a%b"[..], b"\x41\x02%%"].concat();
        check(&[framed(HEADERS, PADDED | PRIORITY | 4, &padded)], b"a%b", b"a-b");
        // Cut in two, in the middle of the value; with data of another stream before and behind.
        let (head, tail) = ([0x82, 0x3f, 0xe1, 0x1f, 0x41, 3, b'a'], b"%b\x86");
        let frames = [framed(0, 0, b"\x41\x01%"), framed(HEADERS, 0, &head), framed(CONTINUATION, 4, tail), framed(0, 0, b"\x41\x01%")];
        check(&frames, b"%b\x86", b"-b\x86");
        // A long one, whose length has two bytes.
        let long = [&[0x41, 0x7f, 0x01][..], &[b'/'; 128]].concat();
        check(&[framed(HEADERS, 4, &long)], &[b'/'; 128], &[b'-'; 128]);
    }

    #[test]
    fn nothing_else_changes() {
        let same: [&[u8]; 7] = [
            // Another header; a name that only begins so; a coded value; a coded name; a table's size; an indexed header.
            b"\x40\x0a:authoritx\x03a%b",
            b"\x40\x0b:authority2\x03a%b",
            b"\x41\x83a%b",
            b"\x40\x8a:authority\x03a%b",
            b"\x3f%",
            b"\xff%",
            b"\x40\x05:path\x03/%2",
        ];
        for block in same {
            let bytes = [vec![0; PREFACE_BYTES], framed(HEADERS, 4, block)].concat();
            assert_eq!(mended(&bytes, 1), bytes, "{block:?}");
        }
    }

    proptest::proptest! {
        /// Whatever comes, nothing panics, and pieces change what the whole changes.
        #[test]
        fn any_bytes_pass(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400), piece in 1usize..50, kind in 0u8..10) {
            let bytes = [vec![0; PREFACE_BYTES], vec![0, 1, 0, HEADERS, kind, 0, 0, 0, 1], bytes].concat();
            let whole = mended(&bytes, bytes.len());
            proptest::prop_assert_eq!(mended(&bytes, piece), whole.clone());
            let changed = bytes.iter().zip(&whole).filter(|(before, after)| before != after);
            proptest::prop_assert!(changed.into_iter().all(|(_, after)| *after == b'-'));
        }
    }
}
