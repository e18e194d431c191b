//! Finds secrets in plain text by their shape or by the name before them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::REDACTED;
use super::key::{self, looks_random};
use super::{flag, prefix};

/// How the keys begin that Skep gives to processes. Hexadecimal digits follow.
pub const OWN_KEY: &str = "sk-skep-";
/// The same in base64, with nothing, one byte or two before it.
const OWN_KEY_BASE64: [&str; 3] = ["c2stc2tlcC", "NrLXNrZXAt", "zay1za2VwL"];
/// Half of a key still says too much.
const OWN_KEY_DIGITS_MIN: usize = 32;
const PEM: [&str; 2] = ["-----BEGIN ", "---- BEGIN "];
/// How a JSON object begins in base64.
const WEB_TOKEN: &str = "eyJ";
/// What stands between password and host where Go names a database.
const GO_DATABASE: [&str; 2] = ["@tcp(", "@unix("];
const URL: &str = "://";
/// Names are looked at no further than this around the word that made them interesting.
const NAME_BYTES_MAX: usize = 64;

#[derive(Clone, Copy)]
enum Hit {
    OwnKey,
    OwnKeyBase64(usize),
    Prefix(usize),
    Pem,
    Url,
    WebToken,
    Basic,
    Cookie,
    Signature,
    GoDatabase,
    Program,
    Name,
}

static TRIGGERS: LazyLock<(Option<AhoCorasick>, Vec<Hit>)> = LazyLock::new(|| {
    let mut words = Vec::new();
    let mut hits = Vec::new();
    // First, because `sk-` is the beginning of other keys too.
    words.push(OWN_KEY);
    hits.push(Hit::OwnKey);
    for (index, beginning) in OWN_KEY_BASE64.iter().enumerate() {
        words.push(*beginning);
        hits.push(Hit::OwnKeyBase64(index));
    }
    for (index, prefix) in prefix::all().enumerate() {
        words.push(prefix);
        hits.push(Hit::Prefix(index));
    }
    let mut add = |word: &'static str, hit: Hit| {
        words.push(word);
        hits.push(hit);
    };
    PEM.into_iter().for_each(|pem| add(pem, Hit::Pem));
    GO_DATABASE.into_iter().for_each(|at| add(at, Hit::GoDatabase));
    for (word, hit) in [(URL, Hit::Url), (WEB_TOKEN, Hit::WebToken), ("basic ", Hit::Basic), ("cookie:", Hit::Cookie)] {
        add(word, hit);
    }
    for sign in ["sig=", "signature="] {
        add(sign, Hit::Signature);
    }
    flag::programs().for_each(|program| add(program, Hit::Program));
    for word in key::WORDS {
        words.push(word);
        hits.push(Hit::Name);
    }
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::LeftmostFirst).build(words);
    (automaton.ok(), hits)
});

/// Whether there is any place worth a look.
pub(super) fn suspects(text: &str) -> bool {
    // Options stand in lists of words, each in quotes of its own.
    text.contains("\"-") || TRIGGERS.0.as_ref().is_none_or(|automaton| automaton.is_match(text))
}

/// So often a redaction is looked at again: what is left of one secret can be the beginning of another's name.
const PASSES_MAX: usize = 8;

pub(super) fn redact(text: &str) -> Cow<'_, str> {
    let mut best = once(text);
    for _ in 1..PASSES_MAX {
        let Cow::Owned(last) = &best else { break };
        let Cow::Owned(next) = once(last) else { break };
        best = Cow::Owned(next);
    }
    best
}

fn once(text: &str) -> Cow<'_, str> {
    let (automaton, hits) = &*TRIGGERS;
    let Some(automaton) = automaton else {
        // Without the automaton nothing could be found, and doubt counts as a secret.
        return Cow::Borrowed(REDACTED);
    };
    let mut out = String::new();
    let mut done = 0;
    for found in automaton.find_iter(text) {
        if found.start() < done {
            continue;
        }
        let secret = match hits[found.pattern().as_usize()] {
            Hit::OwnKey => own_key(text, found.start()).or_else(|| prefix::key(text, found.start(), 0)),
            Hit::OwnKeyBase64(index) => own_key_base64(text, found.start(), index),
            Hit::Prefix(index) => prefix::key(text, found.start(), index),
            Hit::Pem => pem_body(text, found.start()),
            Hit::Url => userinfo(text, found.end()),
            Hit::WebToken => prefix::web_token(text, found.start()),
            Hit::Basic => basic(text, found.range()),
            Hit::Cookie => cookies(text, found.range()),
            Hit::Signature => signature(text, found.range()),
            Hit::GoDatabase => before_host(text, found.start()),
            Hit::Program => flag::in_text(text, found.start()),
            Hit::Name => after_name(text, found.range()),
        };
        if let Some(secret) = secret.filter(|secret| secret.start >= done && !secret.is_empty())
            && &text[secret.clone()] != REDACTED
        {
            out.push_str(&text[done..secret.start]);
            out.push_str(REDACTED);
            done = secret.end;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Whatever stands before it: it has no like among words.
fn own_key(text: &str, start: usize) -> Option<Range<usize>> {
    let from = start + OWN_KEY.len();
    let digits = text[from..].bytes().take_while(u8::is_ascii_hexdigit).count();
    (digits >= OWN_KEY_DIGITS_MIN).then_some(start..from + digits)
}

fn own_key_base64(text: &str, start: usize, index: usize) -> Option<Range<usize>> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let digits = text[start..].bytes().take_while(is_digit).count();
    let is_long = digits >= OWN_KEY_BASE64[index].len() + OWN_KEY_DIGITS_MIN * 4 / 3;
    (is_long && text[start..].starts_with(OWN_KEY_BASE64[index])).then_some(start..start + digits)
}

fn pem_body(text: &str, start: usize) -> Option<Range<usize>> {
    let dashes = text[start..].bytes().take_while(|byte| *byte == b'-').count();
    let label_from = start + text[start..].find("BEGIN ")? + "BEGIN ".len();
    let label = |byte: &u8| byte.is_ascii_uppercase() || *byte == b' ' || byte.is_ascii_digit();
    let label_to = label_from + text[label_from..].bytes().take(NAME_BYTES_MAX).take_while(label).count();
    if !text[label_from..label_to].contains("PRIVATE KEY") || !text[label_to..].starts_with(&"-----"[..dashes.min(5)]) {
        return None;
    }
    let body = label_to + dashes;
    let end = text[body..].find("-----END").or_else(|| text[body..].find("---- END")).map_or(text.len(), |at| body + at);
    Some(body..end)
}

/// `Basic` and base64 of `name:secret`.
fn basic(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if word.start > 0 && is_word(text.as_bytes()[word.start - 1]) {
        return None;
    }
    let from = word.end + spaces(text.as_bytes(), word.end);
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let digits = text[from..].bytes().take_while(is_digit).count();
    let padding = text[from + digits..].bytes().take(2).take_while(|byte| *byte == b'=').count();
    let plain = from_base64(&text.as_bytes()[from..from + digits]);
    let is_login = digits >= 8 && plain.contains(&b':') && plain.iter().all(|byte| (0x20..0x7f).contains(byte));
    is_login.then_some(from..from + digits + padding)
}

fn from_base64(digits: &[u8]) -> Vec<u8> {
    let (mut bits, mut held, mut plain) = (0_u32, 0, Vec::new());
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            plain.extend(u8::try_from(bits >> held & 0xff));
        }
    }
    plain
}

/// What a header of cookies holds, to the end of its line.
fn cookies(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let from = word.end + spaces(bytes, word.end);
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\');
    let end = from + bytes[from..].iter().take_while(|byte| !ends(byte)).count();
    let line = &text[from..end];
    let (name, value) = line.split_once('=')?;
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace());
    (is_name && value.split(';').next().is_some_and(|value| value.trim().len() >= 4)).then_some(from..end)
}

/// The signature that lets whoever has the address in.
fn signature(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let start = word.start - bytes[..word.start].iter().rev().take(NAME_BYTES_MAX).take_while(|byte| is_name(byte)).count();
    if start == 0 || !matches!(bytes[start - 1], b'?' | b'&' | b';') {
        return None;
    }
    let value = bare(text, word.end);
    (value.len() >= 20).then_some(value)
}

/// `name:secret@tcp(host)`.
fn before_host(text: &str, at: usize) -> Option<Range<usize>> {
    let start = text[..at].rfind(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | '`')).map_or(0, |found| found + 1);
    let colon = text[start..at].find(':')? + start + 1;
    (colon < at).then_some(colon..at)
}

fn userinfo(text: &str, start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`') || byte.is_ascii_whitespace();
    let end = start + bytes[start..].iter().take_while(|byte| !ends(byte)).count();
    let at = start + bytes[start..end].iter().rposition(|byte| *byte == b'@')?;
    match bytes[start..at].iter().position(|byte| *byte == b':') {
        Some(colon) => Some(start + colon + 1..at).filter(|value| !key::stands_for_one(&text[value.clone()])),
        None => looks_random(&text[start..at]).then_some(start..at),
    }
}

/// The value after a name that holds a secret: `name=value`, `name: value`, `"name": "value"`, `--name value`, and
/// `Bearer value`.
fn after_name(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let start = word.start - bytes[..word.start].iter().rev().take(NAME_BYTES_MAX).take_while(is_name).count();
    let end = word.end + bytes[word.end..].iter().take(NAME_BYTES_MAX).take_while(is_name).count();
    let name = &text[start..end];
    let value = match separator(bytes, end) {
        Some(from) => {
            let value = value_at(text, from)?;
            let in_prose = value.start == from && bytes[end..from].contains(&b':');
            if in_prose && key::is_about(&text[value.clone()]) {
                return None;
            }
            value
        }
        None if name.eq_ignore_ascii_case("bearer") || name.starts_with("--") => {
            let from = end + spaces(bytes, end);
            let value = bare(text, from);
            let is_secret = match name.starts_with("--") {
                true => key::is_secret(name, &text[value.clone()]),
                false => looks_random(&text[value.clone()]) || value.len() >= 20,
            };
            let is_value = from > end && !text[from..].starts_with('-');
            return (is_value && is_secret).then_some(value);
        }
        None => return None,
    };
    if name.to_ascii_lowercase().ends_with("authorization") {
        return Some(credentials(text, value));
    }
    key::is_secret(name, &text[value.clone()]).then_some(value)
}

/// Behind a name: an optional quote (perhaps escaped), `:` or `=`, and spaces; returns where the value begins.
fn separator(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
    if matches!(bytes.get(at), Some(b'"' | b'\'')) {
        at += 1;
    }
    at += spaces(bytes, at);
    if !matches!(bytes.get(at), Some(b':' | b'=')) {
        return None;
    }
    at += 1;
    // `==`, `=>`, `::` and `://` compare, map or qualify; no value follows.
    if matches!(bytes.get(at), Some(b'=' | b'>' | b':')) || bytes[at - 1..].starts_with(b"://") {
        return None;
    }
    Some(at + spaces(bytes, at))
}

fn value_at(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let escapes = bytes[from..].iter().take_while(|byte| **byte == b'\\').count();
    match bytes.get(from + escapes)? {
        quote @ (b'"' | b'\'') => Some(quoted(bytes, from + escapes + 1, *quote, escapes)),
        b'{' | b'(' => None,
        b'[' if !text[from..].starts_with(REDACTED) => None,
        _ => Some(bare(text, from)),
    }
}

/// Up to the quote that is escaped as often as the one that opened; without one, to the end of the text.
fn quoted(bytes: &[u8], from: usize, quote: u8, escapes: usize) -> Range<usize> {
    let mut run = 0;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match *byte {
            b'\\' => run += 1,
            byte if byte == quote && run <= escapes => return from..at - run,
            _ => run = 0,
        }
    }
    from..bytes.len()
}

/// A value without quotes ends at white space or punctuation that separates; closing brackets at its end are not its own.
fn bare(text: &str, from: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let ends = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'&' | b'"' | b'\'' | b'<' | b'>' | b'`');
    let mut to = from + bytes[from..].iter().take_while(|byte| !ends(**byte)).count();
    while &text[from..to] != REDACTED
        && !key::stands_for_one(&text[from..to])
        && to > from
        && matches!(bytes[to - 1], b')' | b'}' | b']' | b'\\')
    {
        to -= 1;
    }
    from..to
}

/// An Authorization value runs to the end of its line or quotes; its scheme stays.
fn credentials(text: &str, value: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let is_quoted = value.start > 0 && matches!(bytes[value.start - 1], b'"' | b'\'');
    let end = match is_quoted {
        true => value.end,
        false => value.start + bytes[value.start..].iter().take_while(|byte| !matches!(byte, b'\n' | b'\r' | b'"' | b'\'')).count(),
    };
    let whole = &text[value.start..end];
    let schemes = ["bearer", "basic", "digest", "token", "negotiate"];
    let scheme = whole.split_once(' ').filter(|(scheme, _)| schemes.contains(&scheme.to_ascii_lowercase().as_str()));
    match scheme {
        Some((scheme, rest)) => {
            let from = value.start + scheme.len() + 1 + (rest.len() - rest.trim_start().len());
            from..end
        }
        None => value.start..end,
    }
}

fn spaces(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}
