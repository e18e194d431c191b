//! Secrets in addresses: logins before a host, and signatures behind a path.

use std::ops::Range;

use super::key::{self, looks_random};
use super::text::{NAME_BYTES_MAX, bare};

/// The signature that lets whoever has the address in.
pub(super) fn signature(text: &str, word: Range<usize>) -> Option<Range<usize>> {
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
pub(super) fn before_host(text: &str, at: usize) -> Option<Range<usize>> {
    let start = text[..at].rfind(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | '`')).map_or(0, |found| found + 1);
    let colon = text[start..at].find(':')? + start + 1;
    (colon < at).then_some(colon..at)
}

/// `name/secret@host`.
pub(super) fn after_slash(text: &str, start: usize) -> Option<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let end = start + text[start..].find(ends).unwrap_or(text.len() - start);
    let at = start + text[start..end].find('@')?;
    let from = start + text[start..at].find('/')? + 1;
    (from < at).then_some(from..at)
}

pub(super) fn userinfo(text: &str, start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let ends = |byte: &u8| matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`') || byte.is_ascii_whitespace();
    let whole = start + bytes[start..].iter().take_while(|byte| !ends(byte)).count();
    let end = start + bytes[start..whole].iter().take_while(|byte| !matches!(byte, b'/' | b'?' | b'#')).count();
    let Some(at) = bytes[start..end].iter().rposition(|byte| *byte == b'@').map(|at| start + at) else {
        return odd_password(text, start, end, whole);
    };
    match bytes[start..at].iter().position(|byte| *byte == b':') {
        Some(colon) => Some(start + colon + 1..at).filter(|value| !key::stands_for_one(&text[value.clone()])),
        None => looks_random(&text[start..at]).then_some(start..at),
    }
}

/// A password that has what ends a host in it: `postgres://app:a/b@db`. A host's port is a number.
fn odd_password(text: &str, start: usize, end: usize, whole: usize) -> Option<Range<usize>> {
    let colon = start + text[start..end].find(':')? + 1;
    let at = colon + text[colon..whole].rfind('@')?;
    let is_port = text[colon..end].bytes().all(|byte| byte.is_ascii_digit());
    (!is_port && !text[start..].starts_with('[') && !key::stands_for_one(&text[colon..at])).then_some(colon..at)
}
