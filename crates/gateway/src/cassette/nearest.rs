//! Which recorded request an unknown one is most like, and how it differs, for a person to read.

use super::{Recorded, normal};
use crate::Dialect;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

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
        let ratio = TextDiff::from_lines(&text, &asked).ratio();
        if best.as_ref().is_none_or(|(most, ..)| ratio > *most) {
            best = Some((ratio, recorded.n, text));
        }
    }
    let (_, n, recorded) = best?;
    let diff = TextDiff::from_lines(&recorded, &asked);
    let mut lines: Vec<String> = Vec::new();
    let mut more = 0;
    for change in diff.iter_all_changes() {
        let sign = match change.tag() {
            ChangeTag::Equal => continue,
            ChangeTag::Delete => "recorded",
            ChangeTag::Insert => "asked   ",
        };
        if lines.len() == LINES_MAX {
            more += 1;
            continue;
        }
        let line: String = change.value().trim_end().chars().take(LINE_CHARS_MAX).collect();
        lines.push(format!("{sign} {line}"));
    }
    if more > 0 {
        lines.push(format!("and {more} more lines"));
    }
    Some((n, lines))
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
