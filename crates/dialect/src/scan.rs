//! A JSON text of any size read once, in pieces, for the few values that matter.
//!
//! Keeps the path it is on and the values it was asked to keep, each up to a cap; never the text. It reads leniently: what is not
//! JSON gives no values and no panic. It does not check grammar.

use crate::count::Counter;

/// Bytes kept of one value. Usage objects have some hundred.
const VALUE_BYTES_MAX: usize = 16 * 1024;
/// Depth to which keys are known. What we look for is at most two deep; text may be deeper.
const DEPTH_MAX: usize = 64;
const KEY_BYTES_MAX: usize = 32;

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchList {
    /// Paths of values to keep, as keys from the root, `[]` for an array. An array around the whole text is looked through.
    pub values: &'static [&'static [&'static str]],
    /// Whether text under this key is part of what the model wrote.
    pub text: fn(&str) -> bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lex {
    Between,
    Key,
    Text,
    Scalar,
}

#[derive(Clone, Debug)]
struct Frame {
    array: bool,
    key: String,
    /// The next string is a key.
    key_next: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct JsonScan {
    watch: WatchList,
    frames: Vec<Frame>,
    /// Levels beyond [`DEPTH_MAX`].
    deeper: usize,
    lex: Lex,
    escaped: bool,
    /// Hex digits still to come of a `\u`, and those that came.
    unicode: (u8, u32),
    counts: bool,
    /// Index of the value being kept, its bytes, and the depth it started at.
    kept: Option<(usize, Vec<u8>, usize)>,
    begun: bool,
    broken: bool,
}

impl JsonScan {
    pub(crate) fn new(watch: WatchList) -> JsonScan {
        JsonScan {
            watch,
            frames: Vec::new(),
            deeper: 0,
            lex: Lex::Between,
            escaped: false,
            unicode: (0, 0),
            counts: false,
            kept: None,
            begun: false,
            broken: false,
        }
    }

    /// Reads on. `found` gets the index of a watched path and the value's text; `counter` what the model wrote.
    pub(crate) fn feed(&mut self, bytes: &[u8], counter: &mut Counter, found: &mut impl FnMut(usize, &[u8])) {
        for &byte in bytes {
            match self.lex {
                Lex::Key | Lex::Text => self.in_string(byte, counter, found),
                Lex::Scalar if !matches!(byte, b',' | b'}' | b']') && !byte.is_ascii_whitespace() => self.keep(byte),
                Lex::Scalar => {
                    self.value_end(found);
                    self.between(byte, found);
                }
                Lex::Between => self.between(byte, found),
            }
        }
    }

    /// The text is over: says whether it was whole, and is ready for the next.
    pub(crate) fn end(&mut self, found: &mut impl FnMut(usize, &[u8])) -> bool {
        if self.lex == Lex::Scalar {
            self.value_end(found);
        }
        let whole = self.begun && !self.broken && self.frames.is_empty() && self.deeper == 0 && self.lex == Lex::Between;
        *self = JsonScan::new(self.watch);
        whole
    }

    fn depth(&self) -> usize {
        self.frames.len() + self.deeper
    }

    fn between(&mut self, byte: u8, found: &mut impl FnMut(usize, &[u8])) {
        if byte.is_ascii_whitespace() {
            return;
        }
        let top_is_key = self.deeper == 0 && self.frames.last().is_some_and(|frame| frame.key_next);
        match byte {
            b'"' if top_is_key => {
                self.lex = Lex::Key;
                if let Some(frame) = self.frames.last_mut() {
                    frame.key.clear();
                }
                self.keep(byte);
            }
            b'"' => {
                self.value_start();
                self.lex = Lex::Text;
                let key = self.frames.iter().rev().find(|frame| !frame.array).map_or("", |frame| frame.key.as_str());
                self.counts = self.deeper == 0 && (self.watch.text)(key);
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.value_start();
                self.keep(byte);
                if self.deeper > 0 || self.frames.len() == DEPTH_MAX {
                    self.deeper += 1;
                } else {
                    self.frames.push(Frame { array: byte == b'[', key: String::new(), key_next: byte == b'{' });
                }
            }
            b'}' | b']' => {
                self.keep(byte);
                if self.deeper > 0 {
                    self.deeper -= 1;
                } else if self.frames.pop().is_none() {
                    self.broken = true;
                }
                self.value_end(found);
            }
            b':' => {
                self.keep(byte);
                if let (0, Some(frame)) = (self.deeper, self.frames.last_mut()) {
                    frame.key_next = false;
                }
            }
            b',' => {
                self.keep(byte);
                if let (0, Some(frame)) = (self.deeper, self.frames.last_mut()) {
                    frame.key_next = !frame.array;
                }
            }
            _ => {
                self.value_start();
                self.lex = Lex::Scalar;
                self.keep(byte);
            }
        }
    }

    fn in_string(&mut self, byte: u8, counter: &mut Counter, found: &mut impl FnMut(usize, &[u8])) {
        self.keep(byte);
        let plain = if self.unicode.0 > 0 {
            self.unicode = (self.unicode.0 - 1, self.unicode.1 << 4 | char::from(byte).to_digit(16).unwrap_or(0));
            if self.unicode.0 == 0 && self.lex == Lex::Text && self.counts {
                // Half a surrogate pair stands for half of a character beyond the plane.
                let mut utf8 = [0; 4];
                let text = char::from_u32(self.unicode.1).unwrap_or('\u{1F300}').encode_utf8(&mut utf8);
                if !(0xDC00..0xE000).contains(&self.unicode.1) {
                    text.bytes().for_each(|byte| counter.push(byte));
                }
            }
            return;
        } else if std::mem::take(&mut self.escaped) {
            match byte {
                b'u' => {
                    self.unicode = (4, 0);
                    return;
                }
                b'n' | b'r' => b'\n',
                b't' => b'\t',
                other => other,
            }
        } else if byte == b'\\' {
            self.escaped = true;
            return;
        } else if byte == b'"' {
            if self.lex == Lex::Text {
                self.value_end(found);
            }
            self.lex = Lex::Between;
            return;
        } else {
            byte
        };
        match (self.lex, self.frames.last_mut()) {
            (Lex::Key, Some(frame)) if frame.key.len() < KEY_BYTES_MAX => frame.key.push(char::from(plain)),
            (Lex::Text, _) if self.counts => counter.push(plain),
            _ => {}
        }
    }

    fn value_start(&mut self) {
        if self.depth() == 0 {
            self.broken |= std::mem::replace(&mut self.begun, true);
        }
        if self.kept.is_none()
            && let Some(index) = self.watched()
        {
            self.kept = Some((index, Vec::new(), self.depth()));
        }
    }

    fn watched(&self) -> Option<usize> {
        if self.deeper > 0 {
            return None;
        }
        let frames = match self.frames.split_first() {
            Some((root, rest)) if root.array => rest,
            _ => &self.frames[..],
        };
        let is = |path: &&[&str]| {
            path.len() == frames.len()
                && frames.iter().zip(*path).all(|(frame, key)| if frame.array { *key == "[]" } else { frame.key == *key })
        };
        self.watch.values.iter().position(is)
    }

    fn value_end(&mut self, found: &mut impl FnMut(usize, &[u8])) {
        self.lex = Lex::Between;
        let depth = self.depth();
        if let Some((index, value, _)) = self.kept.take_if(|(_, _, from)| *from == depth)
            && value.len() <= VALUE_BYTES_MAX
        {
            found(index, &value);
        }
    }

    fn keep(&mut self, byte: u8) {
        if let Some((_, value, _)) = &mut self.kept
            && value.len() <= VALUE_BYTES_MAX
        {
            value.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: WatchList = WatchList { values: &[&["usage"], &["response", "usage"], &["type"]], text: |key| key == "text" };

    fn scan(text: &str, step: usize) -> (Vec<(usize, String)>, bool, u64) {
        let (mut scan, mut counter, mut found) = (JsonScan::new(WATCH), Counter::default(), Vec::new());
        let mut each = |index: usize, value: &[u8]| found.push((index, String::from_utf8_lossy(value).into_owned()));
        for chunk in text.as_bytes().chunks(step) {
            scan.feed(chunk, &mut counter, &mut each);
        }
        let whole = scan.end(&mut each);
        (found, whole, counter.tokens())
    }

    #[test]
    fn values_are_found_by_path_in_any_chunks() {
        let text = r#" {"type" : "a\"b", "x":{"usage":1,"type":[{"usage":2}]}, "response":{"usage":{"n":[1,{"m":"}"}]},"text":"hi"}, "usage":null}"#;
        let expected = vec![(2, r#""a\"b""#.to_owned()), (1, r#"{"n":[1,{"m":"}"}]}"#.into()), (0, "null".into())];
        for step in 1..text.len() {
            assert_eq!(scan(text, step), (expected.clone(), true, 1), "step {step}");
        }
    }

    #[test]
    fn an_array_around_it_all_is_looked_through() {
        assert_eq!(scan(r#"[{"usage":1},{"usage":2}]"#, 3).0, vec![(0, "1".to_owned()), (0, "2".into())]);
    }

    #[test]
    fn half_a_text_is_not_whole() {
        for text in ["", "{", "{\"usage\":1", "}", "{}}", "\"abc", "{} {}", "[DONE"] {
            assert!(!scan(text, 2).1, "{text}");
        }
        for text in ["{}", "1", "[]", "\"a\""] {
            assert!(scan(text, 2).1, "{text}");
        }
    }

    #[test]
    fn depth_and_size_are_capped() {
        let deep = format!("{}{}", "{\"usage\":".repeat(10_000), "1");
        let mut probe = JsonScan::new(WATCH);
        probe.feed(deep.as_bytes(), &mut Counter::default(), &mut |_, _| {});
        assert!(probe.frames.len() <= DEPTH_MAX && probe.kept.as_ref().is_some_and(|kept| kept.1.len() <= VALUE_BYTES_MAX + 1));
        assert_eq!(scan(&format!("{{\"usage\":\"{}\",\"type\":1}}", "x".repeat(VALUE_BYTES_MAX)), 7).0, vec![(2, "1".to_owned())]);
    }
}
