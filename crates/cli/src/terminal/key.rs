//! Bytes of a terminal as keys. Pure.

/// Longest escape sequence that means anything here.
const SEQUENCE_MAX: usize = 16;
/// Pasted text beyond this is dropped: it goes into fields of one line.
const PASTE_MAX: usize = 64 * 1024;
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPress {
    Char(char),
    /// Text that was not typed.
    Paste(String),
    Enter,
    Tab,
    Escape,
    Backspace,
    /// Ctrl-u: empties a field.
    Clear,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    /// Ctrl-c or ctrl-d.
    Interrupt,
}

#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// Is an escape under way that may be the key itself?
    pub fn waits(&self) -> bool {
        self.pending == [0x1b]
    }

    /// Nothing followed: what is pending was meant as it is.
    pub fn give_up(&mut self) -> Vec<KeyPress> {
        self.pending.clear();
        vec![KeyPress::Escape]
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Vec<KeyPress> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut rest = self.pending.as_slice();
        while let Some((key, used)) = next(rest) {
            keys.extend(key);
            rest = &rest[used..];
        }
        self.pending = rest.to_vec();
        keys
    }
}

/// The first key and how many bytes it took; `None` when more must come.
fn next(bytes: &[u8]) -> Option<(Option<KeyPress>, usize)> {
    match *bytes.first()? {
        0x1b => escape(bytes),
        b'\r' | b'\n' => Some((Some(KeyPress::Enter), 1)),
        b'\t' => Some((Some(KeyPress::Tab), 1)),
        0x7f | 0x08 => Some((Some(KeyPress::Backspace), 1)),
        0x15 => Some((Some(KeyPress::Clear), 1)),
        0x03 | 0x04 => Some((Some(KeyPress::Interrupt), 1)),
        0x00..=0x1f => Some((None, 1)),
        _ => letter(bytes),
    }
}

fn letter(bytes: &[u8]) -> Option<(Option<KeyPress>, usize)> {
    let length = match bytes[0] {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((None, 1)),
    };
    let text = bytes.get(..length)?;
    match std::str::from_utf8(text) {
        Ok(text) => Some((text.chars().next().map(KeyPress::Char), length)),
        Err(_) => Some((None, 1)),
    }
}

fn escape(bytes: &[u8]) -> Option<(Option<KeyPress>, usize)> {
    if bytes.starts_with(PASTE_START) {
        return paste(bytes);
    }
    match bytes.get(1)? {
        b'[' | b'O' => {
            let end = bytes.iter().skip(2).position(|byte| (0x40..=0x7e).contains(byte)).map(|end| end + 3);
            let Some(end) = end else {
                return (bytes.len() > SEQUENCE_MAX).then_some((None, bytes.len()));
            };
            let key = match &bytes[2..end] {
                b"A" => Some(KeyPress::Up),
                b"B" => Some(KeyPress::Down),
                b"C" => Some(KeyPress::Right),
                b"D" => Some(KeyPress::Left),
                b"5~" => Some(KeyPress::PageUp),
                b"6~" => Some(KeyPress::PageDown),
                _ => None,
            };
            Some((key, end))
        }
        // Escape twice, or before another sequence.
        0x1b => Some((Some(KeyPress::Escape), 1)),
        // Alt and a key: neither an escape nor that key.
        _ => Some((None, 1 + letter(&bytes[1..])?.1)),
    }
}

fn paste(bytes: &[u8]) -> Option<(Option<KeyPress>, usize)> {
    let from = PASTE_START.len();
    let Some(length) = bytes[from..].windows(PASTE_END.len()).position(|window| window == PASTE_END) else {
        return (bytes.len() > PASTE_MAX).then_some((None, bytes.len()));
    };
    let text = String::from_utf8_lossy(&bytes[from..from + length]).into_owned();
    Some((Some(KeyPress::Paste(text)), from + length + PASTE_END.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<KeyPress> {
        Decoder::default().feed(bytes)
    }

    #[test]
    fn keys_are_told_apart() {
        assert_eq!(keys(b"aD"), [KeyPress::Char('a'), KeyPress::Char('D')]);
        assert_eq!(keys("é漢".as_bytes()), [KeyPress::Char('é'), KeyPress::Char('漢')]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[5~\x1b[6~"), [KeyPress::Up, KeyPress::Down, KeyPress::PageUp, KeyPress::PageDown]);
        assert_eq!(
            keys(b"\r\t\x7f\x15\x03\x04"),
            [KeyPress::Enter, KeyPress::Tab, KeyPress::Backspace, KeyPress::Clear, KeyPress::Interrupt, KeyPress::Interrupt]
        );
    }

    #[test]
    fn what_is_not_a_key_answers_nothing() {
        // Alt-a, F5, an unknown sequence, broken UTF-8, a mouse report.
        for bytes in [b"\x1ba".as_slice(), b"\x1b[15~", b"\x1b[?1;2c", b"\xff\xfe", b"\xc3\x28"[..1].as_ref(), b"\x1b[<0;1;1M"] {
            assert_eq!(keys(bytes), [], "{bytes:?}");
        }
    }

    #[test]
    fn pasted_text_is_no_keys() {
        assert_eq!(keys(b"\x1b[200~ag\nq\x1b[201~n"), [KeyPress::Paste("ag\nq".into()), KeyPress::Char('n')]);
    }

    #[test]
    fn a_key_may_come_in_pieces_and_a_lone_escape_is_one() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert!(decoder.waits());
        assert_eq!(decoder.feed(b"["), []);
        assert!(!decoder.waits());
        assert_eq!(decoder.feed(b"A"), [KeyPress::Up]);
        assert_eq!(decoder.feed(&"é".as_bytes()[..1]), []);
        assert_eq!(decoder.feed(&"é".as_bytes()[1..]), [KeyPress::Char('é')]);
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert_eq!(decoder.give_up(), [KeyPress::Escape]);
        assert!(!decoder.waits());
    }
}
