//! Finds secrets behind base64 and behind escapes: `password%3Dkoala`, `c2stYW50…`.
//!
//! A run of base64 counts only if all of its plain text can be printed, so hashes, paths and pictures cost a few bytes each.

use std::borrow::Cow;
use std::ops::Range;

use super::REDACTED;
use super::decode::decode;
use super::text;

/// Shorter runs are words.
const RUN_MIN: usize = 20;
/// Encoders break lines at 64 or 76.
const LINE_MIN: usize = 60;

/// The text without what one decoding shows to be a secret.
pub(super) fn once(text: &str) -> Cow<'_, str> {
    let mut found = behind_escapes(text);
    if found.is_empty() {
        found = runs(text.as_bytes()).filter(|run| plain(&text[run.clone()]).is_some_and(|plain| has_secret(&plain))).collect();
    }
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut done) = (String::new(), 0);
    for range in found {
        out.push_str(&text[done..range.start]);
        out.push_str(REDACTED);
        done = range.end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Whether there is anything that `once` would have to look at. Right about JSON as it is stored.
pub(super) fn suspects(text: &str) -> bool {
    !behind_escapes(text).is_empty() || runs(text.as_bytes()).any(|run| plain(&text[run]).is_some_and(|plain| text::has_trigger(&plain)))
}

fn has_secret(plain: &str) -> bool {
    !text::found(plain).is_empty()
}

/// Where secrets stand in the original that are to be seen only without its escapes.
fn behind_escapes(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let is_escape = |pair: &[u8]| pair[0] == b'%' && pair[1].is_ascii_hexdigit() || matches!(pair, b"\\u" | b"\\x" | b"&#");
    // Most texts have none of the three, which is found out many bytes at a time.
    let may_begin = bytes.iter().fold(false, |found, byte| found | matches!(byte, b'%' | b'\\' | b'&'));
    if !may_begin || !bytes.windows(2).any(is_escape) {
        return Vec::new();
    }
    let Some(decoded) = decode(bytes) else { return Vec::new() };
    let Ok(plain) = String::from_utf8(decoded.bytes) else { return Vec::new() };
    let places = text::found(&plain).into_iter().map(|range| decoded.places[range.start]..decoded.places[range.end]);
    places.filter(|range| text.get(range.clone()).is_some_and(|secret| secret != REDACTED)).collect()
}

/// Every byte of every record is asked for.
static DIGITS: [bool; 256] = {
    let mut digits = [false; 256];
    let mut byte = 0;
    while byte < digits.len() {
        let letter = byte as u8;
        digits[byte] = letter.is_ascii_alphanumeric() || matches!(letter, b'+' | b'/' | b'-' | b'_');
        byte += 1;
    }
    digits
};

fn is_digit(byte: u8) -> bool {
    DIGITS[usize::from(byte)]
}

/// Runs of base64 digits, over the ends of long lines, with their padding.
fn runs(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at = next_run(bytes, at)?;
            // The letter of an escape such as `\n` is none of it.
            let start = if at > 0 && bytes[at - 1] == b'\\' { at + 1 } else { at };
            let mut line = start;
            at = start;
            loop {
                at += bytes[at..].iter().take_while(|byte| is_digit(**byte)).count();
                let is_long = at - line >= LINE_MIN;
                let ending = [&b"\r\n"[..], b"\n", b"\\n"].into_iter().find(|ending| is_long && bytes[at..].starts_with(ending));
                match ending {
                    Some(ending) if bytes.get(at + ending.len()).is_some_and(|byte| is_digit(*byte)) => at += ending.len(),
                    _ => break,
                }
                line = at;
            }
            if at - start >= RUN_MIN {
                let padding = bytes[at..].iter().take(2).take_while(|byte| **byte == b'=').count();
                return Some(start..at + padding);
            }
        }
    })
}

/// Where the next run begins that is long enough, from the end of the last one on. Most places are skipped many bytes at a time.
fn next_run(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at..at + RUN_MIN)?.iter().rposition(|byte| !is_digit(*byte)) {
            Some(place) => at += place + 1,
            None => return Some(at),
        }
    }
}

/// What base64 stands for, if that is text.
fn plain(run: &str) -> Option<String> {
    let is_text = |byte: u8| (0x20..0x7f).contains(&byte) || matches!(byte, b'\n' | b'\r' | b'\t');
    let (mut bits, mut held, mut plain) = (0_u32, 0, Vec::new());
    let lines = run.replace("\\n", "\n");
    for digit in lines.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            let byte = u8::try_from(bits >> held & 0xff).ok().filter(|byte| is_text(*byte))?;
            plain.push(byte);
        }
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A run is skipped by none of the long steps: each byte counted for itself finds the same.
        #[test]
        fn runs_are_all_that_are_long_enough(parts in prop::collection::vec("[a-z0-9+/]{0,30}|[ .\\\\\"]{1,3}|=", 0..12)) {
            let text = parts.concat();
            let bytes = text.as_bytes();
            let mut expected = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                let length = bytes[at..].iter().take_while(|byte| is_digit(**byte)).count();
                let start = if length > 0 && at > 0 && bytes[at - 1] == b'\\' { at + 1 } else { at };
                // Longer ones may go on in the next line.
                prop_assume!(length < LINE_MIN);
                if at + length - start >= RUN_MIN {
                    let padding = bytes[at + length..].iter().take(2).take_while(|byte| **byte == b'=').count();
                    expected.push(start..at + length + padding);
                }
                at += length.max(1);
            }
            prop_assert_eq!(runs(bytes).collect::<Vec<_>>(), expected, "{}", text);
        }
    }
}
