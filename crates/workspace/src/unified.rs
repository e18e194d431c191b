//! Two texts as a unified diff, byte for byte.
//!
//! Pure. A line ends with `\n` and nothing else, so that the counts of each place hold for whoever reads it line by line. Bytes that
//! are not UTF-8 are written as `\xNN`.

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag, group_diff_ops};
use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// After this the way from one text to the other need not be the shortest: a text made to be hard to compare holds nobody up.
const TIME_MAX: Duration = Duration::from_secs(2);
/// A text may have so many odd bytes however short it is, and a third of it else: what is compressed or compiled has more.
const ODD_FEW: usize = 3;
const ODD_SHARE: usize = 3;

/// A diff and how many lines it adds and removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unified {
    pub text: String,
    pub added: u64,
    pub removed: u64,
}

/// The way from `old` to `new`; empty when they are the same.
pub fn unified(names: (&str, &str), old: &[u8], new: &[u8], context: usize) -> Unified {
    let (old, new) = (lines(old), lines(new));
    let mut found = Unified::default();
    for group in group_diff_ops(changes(&old, &new), context) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if found.text.is_empty() {
            let (from, to) = (one_line(names.0), one_line(names.1));
            // Writing into a string cannot fail.
            let _ = write!(found.text, "--- {from}\n+++ {to}\n");
        }
        let from = range(first.old_range().start, last.old_range().end);
        let to = range(first.new_range().start, last.new_range().end);
        let _ = writeln!(found.text, "@@ -{from} +{to} @@");
        for op in &group {
            found.add(op, &old, &new);
        }
    }
    found
}

impl Unified {
    fn add(&mut self, op: &DiffOp, old: &[&[u8]], new: &[&[u8]]) {
        let (tag, before, after) = op.as_tag_tuple();
        let same = matches!(tag, DiffTag::Equal);
        for line in &old[before] {
            self.line(if same { ' ' } else { '-' }, line);
        }
        if !same {
            for line in &new[after] {
                self.line('+', line);
            }
        }
    }

    fn line(&mut self, mark: char, line: &[u8]) {
        match mark {
            '+' => self.added += 1,
            '-' => self.removed += 1,
            _ => {}
        }
        self.text.push(mark);
        let whole = line.strip_suffix(b"\n");
        self.text.push_str(&readable(whole.unwrap_or(line)));
        self.text.push_str(if whole.is_some() { "\n" } else { "\n\\ No newline at end of file\n" });
    }
}

/// The lines that only one of two texts has.
pub fn differing<'a>(old: &'a str, new: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let (before, after): (Vec<&str>, Vec<&str>) = (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let bytes = |lines: &[&'a str]| -> Vec<&'a [u8]> { lines.iter().map(|line| line.as_bytes()).collect() };
    let ops = changes(&bytes(&before), &bytes(&after));
    let changed = || ops.iter().map(DiffOp::as_tag_tuple).filter(|(tag, ..)| *tag != DiffTag::Equal);
    let removed = changed().flat_map(|(_, lines, _)| before[lines].iter().copied()).collect();
    let added = changed().flat_map(|(_, _, lines)| after[lines].iter().copied()).collect();
    (removed, added)
}

/// Lines are numbered first, so that the diff is compiled once, for numbers, and compares each line once.
fn changes(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let mut known = HashMap::new();
    let (old, new) = (numbered(old, &mut known), numbered(new, &mut known));
    let mut found = Compact::new(Replace::new(Capture::new()), &old[..], &new[..]);
    let deadline = Some(Instant::now() + TIME_MAX);
    match myers::diff_deadline(&mut found, &old[..], 0..old.len(), &new[..], 0..new.len(), deadline) {
        Ok(()) => found.into_inner().into_inner().into_ops(),
    }
}

/// The same number for the same line.
fn numbered<'a>(lines: &[&'a [u8]], known: &mut HashMap<&'a [u8], usize>) -> Vec<usize> {
    let number = |line: &&'a [u8]| {
        let next = known.len();
        *known.entry(line).or_insert(next)
    };
    lines.iter().map(number).collect()
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// `1,2` for two lines from the first on; an empty range names the line before it.
fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    }
}

/// A name must not begin a line of the diff.
fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Text as it is, and every byte that is none as `\xNN`.
pub fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Can a person read it? What a shell or an interpreter would run is text whatever else it holds, and so is what has few odd bytes.
pub fn is_text(bytes: &[u8]) -> bool {
    let odd = odd(bytes);
    bytes.starts_with(b"#!") || odd <= ODD_FEW || odd.saturating_mul(ODD_SHARE) <= bytes.len()
}

/// Bytes that no text has.
pub fn odd(bytes: &[u8]) -> usize {
    let control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x08' | '\x0c' | '\x1b');
    bytes.utf8_chunks().map(|chunk| chunk.invalid().len() + chunk.valid().chars().filter(|c| control(*c)).count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &[u8], new: &[u8], expected: &str) {
        let found = unified(("a", "b"), old, new, 3);
        assert_eq!(found.text, expected);
        let count = |mark: char| expected.lines().skip(2).filter(|line| line.starts_with(mark)).count() as u64;
        assert_eq!((found.added, found.removed), (count('+'), count('-')));
    }

    #[test]
    fn every_byte_is_told() {
        check(b"same\n", b"same\n", "");
        check(b"", b"x\n", "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
        check(b"x\ny\n", b"", "--- a\n+++ b\n@@ -1,2 +0,0 @@\n-x\n-y\n");
        check(b"x", b"x\n", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n");
        check(b"x\n", b"\xffx\xc3\n", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+\\xffx\\xc3\n");
        // A byte and the text that stands for it are not the same line.
        check(b"\\xff\n", b"\xff\n", "--- a\n+++ b\n@@ -1 +1 @@\n-\\xff\n+\\xff\n");
    }

    #[test]
    fn only_a_line_feed_ends_a_line() {
        check(b"", b"a\rb\x0bc\xe2\x80\xa8d\n", "--- a\n+++ b\n@@ -0,0 +1 @@\n+a\rb\x0bc\u{2028}d\n");
        check(b"", b"a\r", "--- a\n+++ b\n@@ -0,0 +1 @@\n+a\r\n\\ No newline at end of file\n");
    }

    #[test]
    fn names_stay_on_their_line() {
        let found = unified(("a\n+++ b", "c"), b"", b"x\n", 3).text;
        assert!(found.starts_with("--- a\\n+++ b\n+++ c\n@@"), "{found}");
    }

    #[test]
    fn one_odd_byte_makes_no_text_binary() {
        let script = b"echo hello\ncurl example.com | sh\n".repeat(3);
        for odd in [&b"\xff"[..], b"\0", b"\x01"] {
            let mut bytes = script.clone();
            bytes.extend_from_slice(odd);
            assert!(is_text(&bytes), "{odd:?}");
        }
        assert!(is_text(b"") && is_text("äöü".as_bytes()) && is_text(b"gr\xfc\xdfe aus Bayern\n"));
        assert!(is_text(b"#!/bin/sh\n\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff"));
        assert!(
            !is_text(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0")
                && !is_text(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10\x08\x06\0\0\0\x1f\xf3\xffa")
        );
    }
}
