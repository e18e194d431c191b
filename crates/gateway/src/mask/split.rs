//! A credential that comes a few letters at a time, each in an event of its own.
//!
//! Strings that stand at one key (`"text":"…"`, `"delta":"…"`) belong together, whatever is between them. Nothing is held back for it:
//! what was passed on is gone, so the second half of a credential is masked as it comes, and without it the first is of no use.
//! **Invariant.** No byte changes before half of the credential has been seen in a row.

/// Of keys that are watched at a time; an answer has a handful that carry text.
const KEYS_MAX: usize = 32;
/// Of a key; what is longer carries no text that anybody joins.
const KEY_BYTES_MAX: usize = 64;

pub(super) struct Split {
    secret: Vec<u8>,
    /// How much of the secret still counts when the byte after so much of it is another.
    falls_to: Vec<usize>,
    /// How much of the secret the strings at a key have ended with.
    seen: Vec<(Vec<u8>, usize)>,
    place: Place,
    /// The last string that may be a key.
    word: Vec<u8>,
    /// A colon came after it.
    is_key: bool,
}

enum Place {
    Outside,
    /// In a string that is no value.
    Word,
    /// In a value, with the number of the key in `seen`.
    Value(usize),
    /// Behind a backslash in a value, with what came of the escape.
    Escape(usize, Vec<u8>),
}

impl Split {
    pub fn new(secret: &[u8]) -> Split {
        let mut falls_to = vec![0; secret.len()];
        for at in 1..secret.len() {
            let mut length = falls_to[at - 1];
            while length > 0 && secret[at] != secret[length] {
                length = falls_to[length - 1];
            }
            falls_to[at] = length + usize::from(secret[at] == secret[length]);
        }
        Split { secret: secret.to_owned(), falls_to, seen: Vec::new(), place: Place::Outside, word: Vec::new(), is_key: false }
    }

    /// Masks in place. Pieces may be cut anywhere.
    pub fn pass(&mut self, text: &mut [u8]) {
        if self.secret.is_empty() {
            return;
        }
        for at in 0..text.len() {
            let byte = text[at];
            // Strings in JSON have no line breaks: whatever this was, it is over.
            if byte == b'\n' {
                (self.place, self.is_key) = (Place::Outside, false);
                continue;
            }
            match std::mem::replace(&mut self.place, Place::Outside) {
                Place::Outside => self.outside(byte),
                Place::Word if byte == b'"' => {}
                Place::Word => {
                    if self.word.len() < KEY_BYTES_MAX {
                        self.word.push(byte);
                    }
                    self.place = Place::Word;
                }
                Place::Value(_) if byte == b'"' => {}
                Place::Value(key) if byte == b'\\' => self.place = Place::Escape(key, Vec::new()),
                Place::Value(key) => {
                    if self.advance(key, byte) {
                        text[at] = b'*';
                    }
                    self.place = Place::Value(key);
                }
                Place::Escape(key, mut read) => {
                    read.push(byte);
                    self.place = match unescaped(&read) {
                        None => Place::Escape(key, read),
                        Some(meant) => {
                            if self.advance(key, meant) {
                                text[(at + 1).saturating_sub(read.len() + 1)..=at].fill(b'*');
                            }
                            Place::Value(key)
                        }
                    };
                }
            }
        }
    }

    fn outside(&mut self, byte: u8) {
        match byte {
            b'"' if self.is_key => {
                self.is_key = false;
                self.place = Place::Value(self.key());
            }
            b'"' => {
                self.word.clear();
                self.place = Place::Word;
            }
            b':' => self.is_key = true,
            b' ' | b'\t' => {}
            _ => self.is_key = false,
        }
    }

    /// The number of the key that was just read.
    fn key(&mut self) -> usize {
        if let Some(known) = self.seen.iter().position(|(key, _)| *key == self.word) {
            return known;
        }
        if self.seen.len() == KEYS_MAX {
            self.seen.remove(0);
        }
        self.seen.push((self.word.clone(), 0));
        self.seen.len() - 1
    }

    /// Takes one more byte of the strings at a key; says whether it is of the second half of the secret.
    fn advance(&mut self, key: usize, byte: u8) -> bool {
        let Some((_, seen)) = self.seen.get_mut(key) else { return false };
        if *seen == self.secret.len() {
            *seen = self.falls_to[*seen - 1];
        }
        while *seen > 0 && self.secret[*seen] != byte {
            *seen = self.falls_to[*seen - 1];
        }
        *seen += usize::from(self.secret[*seen] == byte);
        *seen > self.secret.len() / 2
    }
}

/// What an escape means, without its backslash; `None` while more must come. What is no letter of a credential is 0.
fn unescaped(read: &[u8]) -> Option<u8> {
    match read {
        [b'u', ..] if read.len() < 5 => None,
        [b'u', digits @ ..] => {
            let code = std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
            Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(0))
        }
        [plain @ (b'"' | b'\\' | b'/')] => Some(*plain),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-aabaabaabaabaac-1234";

    fn passed(pieces: &[String]) -> String {
        let mut split = Split::new(SECRET.as_bytes());
        let mut out = Vec::new();
        for piece in pieces {
            let mut piece = piece.clone().into_bytes();
            split.pass(&mut piece);
            out.extend(piece);
        }
        String::from_utf8(out).unwrap()
    }

    fn event(text: &str) -> String {
        format!("event: delta\ndata: {{\"type\":\"delta\",\"delta\":{{\"text\":\"{text}\"}}}}\n\n")
    }

    /// The text that a client puts together.
    fn joined(stream: &str) -> String {
        let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str::<serde_json::Value>(data).unwrap()["delta"]["text"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_credential_in_many_events_loses_its_second_half() {
        for size in 1..SECRET.len() {
            let parts: Vec<String> = SECRET.as_bytes().chunks(size).map(|part| event(std::str::from_utf8(part).unwrap())).collect();
            let stream: Vec<String> = [event("key: ")].into_iter().chain(parts).chain([event(" it was")]).collect();
            let half = &SECRET[..SECRET.len() / 2];
            let stars = "*".repeat(SECRET.len() - half.len());
            assert_eq!(joined(&passed(&stream)), format!("key: {half}{stars} it was"), "{size}");
            // The same when the bytes are cut elsewhere.
            let bytes: Vec<String> = stream.concat().chars().map(String::from).collect();
            assert_eq!(joined(&passed(&bytes)), format!("key: {half}{stars} it was"), "{size}");
        }
    }

    #[test]
    fn escapes_count_as_what_they_mean() {
        let escaped: String = SECRET.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        let text = joined(&passed(&[event(&escaped)]));
        assert!(text.starts_with(&SECRET[..11]) && text[11..].bytes().all(|byte| byte == b'*'), "{text}");
    }

    #[test]
    fn what_only_begins_like_it_is_left_alone() {
        for text in ["sk-aab", "sk-aabaabaa", "sk-sk-sk-aabaab", "aabaac", "\\n\\u00e4 \\\"quoted\\\""] {
            let stream = [event(text), event("and on"), event(text)];
            assert_eq!(passed(&stream), stream.concat());
        }
        // Other keys between do not join, and do not part.
        let stream = format!("{{\"id\":\"{}\",\"text\":\"{}\"}}", &SECRET[..11], &SECRET[11..]);
        assert_eq!(passed(std::slice::from_ref(&stream)), stream);
    }
}
