//! JSON bytes as JavaScript's `JSON.stringify(JSON.parse(text))` would write them.
//!
//! Compact, shortest numbers, integer-like keys first, the last of equal keys wins. One difference, on purpose: an
//! integer of any size keeps its digits, where JavaScript would round above 2^53.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;

/// Appends the canonical form of a payload, which must be valid JSON (a `RawValue` is), and gives its [`subject`].
pub(crate) fn push_payload(out: &mut String, text: &str) -> (Option<u64>, Option<String>) {
    let mut walk = Walk { text, at: 0 };
    walk.space();
    let mut subject = Subject::default();
    match walk.peek() {
        b'{' => walk.object(out, Some(&mut subject)),
        _ => walk.value(out),
    }
    (subject.pid, subject.task)
}

/// What is found of a payload's subject while it is written. Of equal keys the last one counts, as in the canonical form.
#[derive(Default)]
struct Subject {
    pid: Option<u64>,
    task: Option<String>,
}

impl Subject {
    /// Takes note of one top-level member, by the canonical text of its value.
    fn see(&mut self, key: &str, value: &str) {
        match key {
            "pid" => self.pid = pid_of(value),
            "task" => self.task = value.starts_with('"').then(|| unescape(value).into_owned()),
            _ => {}
        }
    }
}

fn pid_of(value: &str) -> Option<u64> {
    value.parse().ok().filter(|pid| i64::try_from(*pid).is_ok())
}

/// The top-level `pid` and `task` of a canonical payload: what the index is derived from.
pub(crate) fn subject(payload: &str) -> (Option<u64>, Option<Cow<'_, str>>) {
    let (mut pid, mut task) = (None, None);
    // Most payloads name neither or both early; looking for the key first avoids the walk.
    if !payload.starts_with('{') || !(payload.contains("\"pid\":") || payload.contains("\"task\":")) {
        return (pid, task);
    }
    let mut walk = Walk { text: payload, at: 1 };
    while walk.peek() == b'"' {
        let key = walk.raw_string();
        walk.at += 1;
        let from = walk.at;
        walk.skip_value();
        let value = &payload[from..walk.at];
        match key {
            "\"pid\"" => pid = pid_of(value),
            "\"task\"" if value.starts_with('"') => task = Some(unescape(value)),
            _ => {}
        }
        // Keys of a canonical object are unique, so the rest can't say otherwise.
        if walk.peek() != b',' || pid.is_some() && task.is_some() {
            break;
        }
        walk.at += 1;
    }
    (pid, task)
}

/// Appends a JSON string literal with the escapes that `JSON.stringify` uses.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x0c => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        if escape.is_empty() {
            // Writing to a String can't fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// The text of a JSON string literal, quotes included in the input.
pub(crate) fn unescape(literal: &str) -> Cow<'_, str> {
    let inner = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    Cow::Owned(serde_json::from_str(literal).unwrap_or_else(|_| inner.to_owned()))
}

/// Steps through JSON that is known to be valid, so it looks for ends, not for errors.
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// The literal at the cursor with its quotes; the cursor moves behind it.
    fn raw_string(&mut self) -> &'a str {
        let from = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(plain) = bytes.get(self.at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))) {
            self.at += plain + 1;
            if bytes[self.at - 1] == b'"' {
                return &self.text[from..self.at];
            }
            self.at += 1;
        }
        self.at = bytes.len();
        &self.text[from..]
    }

    fn word(&mut self) -> &'a str {
        let from = self.at;
        while !matches!(self.peek(), 0 | b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    /// Moves behind the value of a text without white space.
    fn skip_value(&mut self) {
        let mut depth = 0u32;
        loop {
            match self.peek() {
                0 => return,
                b'"' => {
                    self.raw_string();
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' if depth == 0 => return,
                b',' | b':' => self.at += 1,
                _ => {
                    self.word();
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn value(&mut self, out: &mut String) {
        self.space();
        match self.peek() {
            b'{' => self.object(out, None),
            b'[' => self.array(out),
            b'"' => push_literal(out, self.raw_string()),
            _ => push_word(out, self.word()),
        }
        self.space();
    }

    fn array(&mut self, out: &mut String) {
        out.push('[');
        self.at += 1;
        self.space();
        while !matches!(self.peek(), b']' | 0) {
            self.value(out);
            if self.peek() == b',' {
                self.at += 1;
                out.push(',');
            }
        }
        self.at += 1;
        out.push(']');
    }

    fn object(&mut self, out: &mut String, mut subject: Option<&mut Subject>) {
        out.push('{');
        self.at += 1;
        self.space();
        let start = out.len();
        let mut members: Vec<(Cow<'a, str>, std::ops::Range<usize>)> = Vec::new();
        let (mut plain, mut marks) = (true, 0_u64);
        while self.peek() == b'"' {
            if !members.is_empty() {
                out.push(',');
            }
            let from = out.len();
            let literal = self.raw_string();
            let key = unescape(literal);
            // Keys with a mark of their own differ from all before.
            let mark = 1 << (key.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)) & 63);
            let is_repeated = marks & mark != 0 && members.iter().take(32).any(|(other, _)| *other == key);
            marks |= mark;
            plain &= array_index(&key).is_none() && !is_repeated;
            push_literal(out, literal);
            out.push(':');
            self.space();
            self.at += 1;
            let value_from = out.len();
            self.value(out);
            if let Some(subject) = subject.as_deref_mut() {
                subject.see(&key, &out[value_from..]);
            }
            members.push((key, from..out.len()));
            if self.peek() == b',' {
                self.at += 1;
                self.space();
            }
        }
        self.at += 1;
        if !plain || members.len() > 32 {
            let written = out[start..].to_owned();
            out.truncate(start);
            push_ordered(out, &written, start, members);
        }
        out.push('}');
    }
}

/// Writes the members again as JavaScript orders them: array indices ascending, then by first appearance.
fn push_ordered(out: &mut String, written: &str, start: usize, members: Vec<(Cow<'_, str>, std::ops::Range<usize>)>) {
    let mut places = HashMap::new();
    let mut last: Vec<(Cow<'_, str>, std::ops::Range<usize>)> = Vec::with_capacity(members.len());
    for (key, range) in members {
        match places.get(&key) {
            Some(place) => {
                let member: &mut (Cow<'_, str>, _) = &mut last[*place];
                member.1 = range;
            }
            None => {
                places.insert(key.clone(), last.len());
                last.push((key, range));
            }
        }
    }
    last.sort_by_key(|(key, _)| array_index(key).map_or((1, 0), |index| (0, index)));
    for (index, (_, range)) in last.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&written[range.start - start..range.end - start]);
    }
}

fn array_index(key: &str) -> Option<u32> {
    if !key.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let canonical = key == "0" || !key.starts_with('0');
    let digits = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && digits { key.parse().ok().filter(|index| *index < u32::MAX) } else { None }
}

/// Copies a literal, unless it uses escapes that JavaScript would not.
fn push_literal(out: &mut String, literal: &str) {
    let is_foreign = |pair: &[u8]| matches!(pair, b"\\u" | b"\\/");
    if literal.bytes().any(|byte| byte == b'\\') && literal.as_bytes().windows(2).any(is_foreign) {
        push_string(out, &unescape(literal));
    } else {
        out.push_str(literal);
    }
}

fn push_word(out: &mut String, word: &str) {
    let is_float = word.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
        && word.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    if word == "-0" {
        out.push('0');
    } else if is_float {
        push_number(out, word.parse().unwrap_or(f64::NAN));
    } else {
        out.push_str(word);
    }
}

/// ECMAScript's Number::toString for radix 10; what is not finite becomes null.
fn push_number(out: &mut String, number: f64) {
    if !number.is_finite() {
        out.push_str("null");
        return;
    }
    if number == 0.0 {
        out.push('0');
        return;
    }
    if number < 0.0 {
        out.push('-');
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or_default());
    let cut = usize::try_from(point).unwrap_or_default();
    // Writing to a String can't fail.
    let _ = match point {
        _ if count <= point && point <= 21 => write!(out, "{digits}{}", zeros(point - count)),
        1..=21 => write!(out, "{}.{}", &digits[..cut], &digits[cut..]),
        -5..=0 => write!(out, "0.{}{digits}", zeros(-point)),
        _ if count == 1 => write!(out, "{digits}e{:+}", point - 1),
        _ => write!(out, "{}.{}e{:+}", &digits[..1], &digits[1..], point - 1),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canon(text: &str) -> String {
        let mut out = String::new();
        let told = push_payload(&mut out, text);
        let (pid, task) = subject(&out);
        assert_eq!(told, (pid, task.map(Cow::into_owned)), "{text}");
        out
    }

    #[test]
    fn bytes_are_those_of_javascript() {
        // Each right side was compared with JSON.stringify(JSON.parse(left)) in Node, save the last: there we differ.
        let table = [
            (r#" { "b" : 1 , "a" : [ 1 , 2 ] } "#, r#"{"b":1,"a":[1,2]}"#),
            (r#"{"b":1,"10":2,"9":3,"01":4,"a":5}"#, r#"{"9":3,"10":2,"b":1,"01":4,"a":5}"#),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
            (r#"{"4294967295":1,"4294967294":2}"#, r#"{"4294967294":2,"4294967295":1}"#),
            (
                r"[1.0,-0,-0.0,1e21,1e20,123456789e15,1.5e-7,0.000001,1e-7,1.25,-2.50]",
                r"[1,0,0,1e+21,100000000000000000000,1.23456789e+23,1.5e-7,0.000001,1e-7,1.25,-2.5]",
            ),
            (r"[5e-324,1.7976931348623157e308,0.1,1E2,123.456]", r"[5e-324,1.7976931348623157e+308,0.1,100,123.456]"),
            (r#"["\u0041\/\u00e9\u000a\u001f\ud83d\ude00"]"#, "[\"A/é\\n\\u001f😀\"]"),
            ("[\n\t]", "[]"),
            ("{ }", "{}"),
            (r#"{"a":{},"b":[[],[{}]],"c":"x\"y\\"}"#, r#"{"a":{},"b":[[],[{}]],"c":"x\"y\\"}"#),
            ("[true,false,null]", "[true,false,null]"),
            ("18446744073709551615", "18446744073709551615"),
        ];
        for (text, expected) in table {
            assert_eq!(canon(text), expected, "{text}");
        }
    }

    #[test]
    fn the_subject_is_the_top_level_one() {
        let check = |payload: &str, pid: Option<u64>, task: Option<&str>| {
            assert_eq!(subject(&canon(payload)), (pid, task.map(Cow::Borrowed)), "{payload}");
        };
        check(r#"{"pid":7,"task":"task-1"}"#, Some(7), Some("task-1"));
        check(r#"{"x":{"pid":7,"task":"no"},"task":"y\"es"}"#, None, Some("y\"es"));
        check(r#"{"x":"\"pid\":7,","a":[{"pid":1}],"pid":2}"#, Some(2), None);
        check(r#"{"pid":"7","task":7}"#, None, None);
        check(r#"{"pid":-7}"#, None, None);
        check(r#"[{"pid":7}]"#, None, None);
        check(r#"{"pid":7,"task":"a","pid":"7","task":null}"#, None, None);
        check(r#"{"pid":"7","\u0070id":7,"task":{"task":"b"}}"#, Some(7), None);
        check("{}", None, None);
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::Array),
                prop::collection::vec(("pid|task|[0-9a-c\"\\\\]{0,3}", inner), 0..6)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_text_means_the_same_and_is_stable(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let once = canon(&text);
            prop_assert_eq!(&canon(&once), &once);
            prop_assert!(!once.contains('\n'));
            let back: serde_json::Value = serde_json::from_str(&once).unwrap();
            prop_assert!(same(&back, &value), "{} became {}", text, once);
        }
    }

    /// Equality where 1.0 and 1 are one number, as in JavaScript.
    fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
        use serde_json::Value::{Array, Number, Object};
        match (a, b) {
            (Number(a), Number(b)) => a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| (a - b).abs() <= a.abs() * 1e-15),
            (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            (Object(a), Object(b)) => a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w))),
            _ => a == b,
        }
    }
}
