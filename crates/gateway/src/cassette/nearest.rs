//! Which recorded request an unknown one is most like, and how it differs, for a person to read.

use super::{Recorded, normal};
use crate::Dialect;
use serde_json::Value;
use std::collections::HashMap;

/// Requests that are compared; the first of them are the likely ones, as a run mostly goes in order.
const COMPARED_MAX: usize = 16;
const LINES_MAX: usize = 40;
const LINE_CHARS_MAX: usize = 200;

pub(super) fn nearest(dialect: Dialect, path: &str, body: &Value, left: &[&Recorded]) -> Option<(u64, Vec<String>)> {
    let asked = text(dialect, path, body);
    let compared =
        left.iter().filter(|recorded| recorded.dialect == dialect).chain(left.iter().filter(|recorded| recorded.dialect != dialect));
    let mut best: Option<(f32, u64, String)> = None;
    for recorded in compared.take(COMPARED_MAX) {
        let text = text(recorded.dialect, &recorded.path, &recorded.body);
        let shared = text.lines().count() - only_in(&text, &asked).len();
        let likeness = 2.0 * shared as f32 / (text.lines().count() + asked.lines().count()) as f32;
        if best.as_ref().is_none_or(|(most, ..)| likeness > *most) {
            best = Some((likeness, recorded.n, text));
        }
    }
    let (_, n, recorded) = best?;
    let told = |sign: &str, line: &str| format!("{sign} {}", line.trim_end().chars().take(LINE_CHARS_MAX).collect::<String>());
    let mut lines: Vec<String> = only_in(&recorded, &asked).into_iter().map(|line| told("recorded", line)).collect();
    lines.extend(only_in(&asked, &recorded).into_iter().map(|line| told("asked   ", line)));
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    if more > 0 {
        lines.push(format!("and {more} more lines"));
    }
    Some((n, lines))
}

/// Lines of a text that the other has not, or not as often. Each line says where its value stands, so their order tells nothing more.
fn only_in<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let mut left: HashMap<&str, usize> = HashMap::new();
    other.lines().for_each(|line| *left.entry(line).or_default() += 1);
    let is_missing = |line: &&str| match left.get_mut(*line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    text.lines().filter(is_missing).collect()
}

/// One line for each value and for each line of a text, with the way to it in front.
fn text(dialect: Dialect, path: &str, body: &Value) -> String {
    let mut out = format!("{} {path}\n", dialect.name());
    flat("", &normal::request(dialect, body), &mut out);
    out
}

fn flat(way: &str, value: &Value, out: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, member) in members {
                let way = if way.is_empty() { key.clone() } else { format!("{way}.{key}") };
                flat(&way, member, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, item)| flat(&format!("{way}[{index}]"), item, out))
        }
        Value::String(text) => text.lines().for_each(|line| {
            out.push_str(&format!("{way}: {line}\n"));
        }),
        other => out.push_str(&format!("{way}: {other}\n")),
    }
}
