//! Secrets known by value, in the shapes in which they travel.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

use aho_corasick::{AhoCorasick, MatchKind};

use super::REDACTED;
use super::decode::decode;

const SECRET_BYTES_MIN: usize = 4;

#[derive(Default)]
pub(super) struct KnownSecrets {
    shapes: BTreeSet<String>,
    automaton: Option<AhoCorasick>,
}

impl KnownSecrets {
    pub(super) fn add(&mut self, secret: &str) -> bool {
        if secret.len() < SECRET_BYTES_MIN || REDACTED.contains(secret) {
            return false;
        }
        if self.shapes.iter().any(|known| known == secret) {
            return true;
        }
        self.shapes.extend(shapes(secret));
        self.automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&self.shapes).ok();
        self.automaton.is_some()
    }

    /// Whether any of them is in the text, in whatever shape.
    pub(super) fn suspects(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_)) || self.automaton.is_none() && !self.shapes.is_empty()
    }

    pub(super) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.plainly(text) {
            Cow::Owned(clean) => Cow::Owned(self.behind_escapes(&clean).unwrap_or(clean)),
            Cow::Borrowed(text) => self.behind_escapes(text).map_or(Cow::Borrowed(text), Cow::Owned),
        }
    }

    /// The text without the values that stand in it behind escapes, if there are any.
    fn behind_escapes(&self, text: &str) -> Option<String> {
        let automaton = self.automaton.as_ref()?;
        let decoded = decode(text.as_bytes())?;
        let mut out = String::new();
        let mut from = 0;
        for found in automaton.find_iter(&decoded.bytes) {
            let (start, end) = (decoded.places[found.start()], decoded.places[found.end()]);
            // INVARIANT: what was decoded is ASCII and what was not stands for itself, so both are boundaries of characters.
            out.push_str(text.get(from..start)?);
            out.push_str(REDACTED);
            from = end;
        }
        (from > 0).then(|| out + &text[from..])
    }

    fn plainly<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let automaton = match &self.automaton {
            Some(automaton) => automaton,
            None if self.shapes.is_empty() => return Cow::Borrowed(text),
            // Without the automaton nothing could be found, and doubt counts as a secret.
            None => return Cow::Borrowed(REDACTED),
        };
        let mut out = String::new();
        let mut from = 0;
        for found in automaton.find_iter(text) {
            out.push_str(&text[from..found.start()]);
            out.push_str(REDACTED);
            from = found.end();
        }
        if from == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }
}

fn shapes(secret: &str) -> Vec<String> {
    let mut shapes = vec![secret.to_owned(), percent(secret, true), percent(secret, false), percent(secret, true).replace("%20", "+")];
    let mut json = String::new();
    crate::canon::push_string(&mut json, secret);
    shapes.push(json[1..json.len() - 1].to_owned());
    for (alphabet, offset) in [(STANDARD, 0), (STANDARD, 1), (STANDARD, 2), (URL_SAFE, 0), (URL_SAFE, 1), (URL_SAFE, 2)] {
        let shape = base64_inside(secret.as_bytes(), offset, alphabet);
        // What is left of a short secret inside base64 is too little to tell it from other text.
        if shape.len() >= SECRET_BYTES_MIN {
            shapes.push(shape);
        }
    }
    // Hexadecimal, as dumps and digests have it.
    let hex = crate::chain::hex(secret.as_bytes());
    shapes.extend([hex.to_ascii_uppercase(), hex]);
    // Encoded twice, as in a header that was quoted in a body.
    let twice = base64_inside(base64_whole(secret.as_bytes()).as_bytes(), 0, STANDARD);
    shapes.push(twice);
    shapes
}

fn base64_whole(bytes: &[u8]) -> String {
    let mut text = base64_inside(bytes, 0, STANDARD);
    let rest = bytes.len() % 3;
    if rest > 0 {
        let last = bytes[bytes.len() - 1];
        let digit = if rest == 1 { last & 3 } else { last & 15 };
        text.push(char::from(STANDARD[usize::from(digit) << if rest == 1 { 4 } else { 2 }]));
        text.push_str(if rest == 1 { "==" } else { "=" });
    }
    text
}

fn percent(text: &str, upper: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = if upper { write!(out, "%{byte:02X}") } else { write!(out, "%{byte:02x}") };
        }
    }
    out
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 digits that depend on the secret alone when `offset` (0 to 2) other bytes stand before it, so that a
/// secret is found inside a longer encoded text as well.
fn base64_inside(secret: &[u8], offset: usize, alphabet: &[u8; 64]) -> String {
    let bytes: Vec<u8> = std::iter::repeat_n(0, offset).chain(secret.iter().copied()).collect();
    let sextet = |index: usize| {
        let bit = index * 6;
        let pair = u16::from(bytes[bit / 8]) << 8 | u16::from(bytes.get(bit / 8 + 1).copied().unwrap_or(0));
        usize::from(pair >> (10 - bit % 8)) & 63
    };
    // The first digit that has no bit of the bytes before, up to the last that has no bit of those after.
    let first = (offset * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    (first..last).map(|index| char::from(alphabet[sextet(index)])).collect()
}
