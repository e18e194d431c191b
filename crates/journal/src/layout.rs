//! Takes a stored line apart by its fixed order of keys.
//!
//! Strict: a line in any other order, or of another version, is not read at all.

use crate::canon;

/// The parts of one line, as bytes of the line.
pub(crate) struct Layout<'a> {
    pub event_id: &'a str,
    pub timestamp: &'a str,
    /// With quotes and escapes.
    pub session: &'a str,
    /// With quotes and escapes.
    pub kind: &'a str,
    pub payload: &'a str,
    pub hash_prev: Option<&'a str>,
    pub seq: u64,
}

impl<'a> Layout<'a> {
    pub(crate) fn parse(line: &'a str) -> Result<Self, &'static str> {
        let rest = line.strip_prefix("{\"event_id\":\"").ok_or("it does not begin with an event id")?;
        let (event_id, rest) = split(rest, 36)?;
        let rest = rest.strip_prefix("\",\"timestamp\":\"").ok_or("no timestamp after the event id")?;
        let (timestamp, rest) = split(rest, 24)?;
        let rest = rest.strip_prefix("\",\"session_id\":").ok_or("no session id after the timestamp")?;
        let (session, rest) = literal(rest)?;
        let rest = rest.strip_prefix(",\"type\":").ok_or("no type after the session id")?;
        let (kind, rest) = literal(rest)?;
        let rest = rest.strip_prefix(",\"payload\":").ok_or("no payload after the type")?;

        let rest = rest.strip_suffix(",\"v\":1}").ok_or("it is not of version 1")?;
        let digits = rest.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (rest, seq) = rest.split_at(rest.len() - digits);
        let seq = seq.parse().map_err(|_| "no sequence number")?;
        let rest = rest.strip_suffix(",\"seq\":").ok_or("no sequence number")?;
        let (payload, hash_prev) = match seq {
            0 => (rest, None),
            _ => {
                let cut = rest.len().checked_sub(79).ok_or("no hash of the line before")?;
                let (payload, tail) = rest.split_at_checked(cut).ok_or("no hash of the line before")?;
                let hash = tail.strip_prefix(",\"hash_prev\":\"").and_then(|tail| tail.strip_suffix('"'));
                (payload, Some(hash.ok_or("no hash of the line before")?))
            }
        };
        Ok(Self { event_id, timestamp, session, kind, payload, hash_prev, seq })
    }
}

/// Whether a literal spells the text, without unescaping where it need not.
pub(crate) fn spells(literal: &str, text: &str) -> bool {
    canon::unescape(literal) == text
}

fn split(text: &str, at: usize) -> Result<(&str, &str), &'static str> {
    text.split_at_checked(at).ok_or("it is too short")
}

fn literal(text: &str) -> Result<(&str, &str), &'static str> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        return Err("a string is missing");
    }
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return text.split_at_checked(at + 1).ok_or("a string does not end"),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Err("a string does not end")
}
