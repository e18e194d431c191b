//! What two runs of the same command may say differently: how long it took, when, as which process, and in which temporary folder.
//!
//! **Invariant.** The list is closed and stands in docs/models.md, under *Replaying a task*: whatever else differs is a difference.

use regex::{Regex, RegexSet};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

/// A pattern, and what stands in its place. A later one sees what the earlier ones left.
const PATTERNS: [(&str, &str); 6] = [
    // 2026-11-17T07:31:30.5Z, 2026-11-17 07:31
    (r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z| ?[+-]\d{2}:?\d{2})?", "<time>"),
    // Tue Nov 17 07:31:30 UTC 2026; Tue, 17 Nov 2026 07:31:30 +0000
    (
        r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +(?:[A-Z][a-z]{2} +\d{1,2}|\d{1,2} [A-Z][a-z]{2} \d{4}) \d{2}:\d{2}:\d{2}(?: [A-Z]{3,4} \d{4}| [+-]\d{4})?",
        "<time>",
    ),
    // 07:31:30.123
    (r"\b\d{2}:\d{2}:\d{2}(?:[.,]\d+)?\b", "<time>"),
    // 0.03s, 12 ms, 3 seconds
    (r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?)\b", "<duration>"),
    // pid 4711, process 4711
    (r"(?i)\b(pid|process)([ =:]+)\d+\b", "$1$2<pid>"),
    // /tmp/tmp.Xy12 and whatever is in it
    (r#"(?:/var/tmp|/tmp|/dev/shm)/[^\s"'`:;,)\]}>]+"#, "<temporary>"),
];

/// Fields of a tool's answer that only say how long it took or as which process.
const FIELDS: [&str; 5] = ["ms", "duration_ms", "elapsed_ms", "took_ms", "pid"];

struct Patterns {
    any: RegexSet,
    each: Vec<(Regex, &'static str)>,
}

static COMPILED: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let each: Result<_, regex::Error> = PATTERNS.iter().map(|(pattern, word)| Ok((Regex::new(pattern)?, *word))).collect();
    Some(Patterns { any: RegexSet::new(PATTERNS.map(|(pattern, _)| pattern)).ok()?, each: each.ok()? })
});

/// A text without what may differ.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    let Some(patterns) = COMPILED.as_ref().filter(|patterns| patterns.any.is_match(text)) else { return Cow::Borrowed(text) };
    let mut plain = text.to_owned();
    for (pattern, word) in &patterns.each {
        if let Cow::Owned(changed) = pattern.replace_all(&plain, *word) {
            plain = changed;
        }
    }
    Cow::Owned(plain)
}

/// A tool's answer without what may differ, at any depth.
pub(crate) fn answer(value: &Value) -> Value {
    match value {
        Value::String(whole) => Value::String(text(whole).into_owned()),
        Value::Array(items) => Value::Array(items.iter().map(answer).collect()),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| !(value.is_number() && FIELDS.contains(&name.as_str())));
            Value::Object(kept.map(|(name, value)| (name.clone(), answer(value))).collect())
        }
        other => other.clone(),
    }
}

/// The first place where two answers differ once both are plain: its name, and both texts there.
pub(crate) fn difference(then: &Value, now: &Value) -> Option<(String, String, String)> {
    first(&answer(then), &answer(now), String::new())
}

fn first(then: &Value, now: &Value, at: String) -> Option<(String, String, String)> {
    match (then, now) {
        _ if then == now => None,
        (Value::Object(then), Value::Object(now)) => then.keys().chain(now.keys()).find_map(|name| {
            let inner = |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or(Value::Null);
            let place = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            first(&inner(then), &inner(now), place)
        }),
        _ => Some((at, told(then), told(now))),
    }
}

fn told(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(COMPILED.as_ref().map(|patterns| patterns.each.len()), Some(PATTERNS.len()));
    }

    #[test]
    fn what_may_differ_is_taken_out_and_nothing_else() {
        let same = [
            ("3 passed in 0.03s", "3 passed in 1.20s"),
            ("finished in 12 ms", "finished in 7 ms"),
            ("at 2026-11-17T07:31:30.5Z", "at 2025-01-02T03:04:05Z"),
            ("Tue Nov 17 07:31:30 UTC 2026", "Wed Nov 18 09:00:01 UTC 2026"),
            ("Date: Tue, 17 Nov 2026 07:31:30 +0000", "Date: Wed, 18 Nov 2026 07:31:31 +0000"),
            ("[07:31:30] ok", "[12:00:00] ok"),
            ("started pid 17", "started pid 4711"),
            ("wrote /tmp/tmp.aB3/out.txt", "wrote /tmp/tmp.Zz9/out.txt"),
        ];
        for (then, now) in same {
            assert_eq!(text(then), text(now));
        }
        let different = [
            ("3 passed in 0.03s", "4 passed in 0.03s"),
            ("exit 1", "exit 2"),
            ("version 1.2.3", "version 1.2.4"),
            ("wrote /home/a/out", "wrote /home/b/out"),
            ("line 12: bad", "line 13: bad"),
            ("items 3", "items 4"),
        ];
        for (then, now) in different {
            assert_ne!(text(then), text(now), "{then}");
        }
        assert!(matches!(text("nothing of that kind"), Cow::Borrowed(_)));
    }

    #[test]
    fn the_first_difference_has_its_place() {
        let (then, now) = (json!({"exit": 0, "ms": 3, "stdout": "a in 1s\n"}), json!({"exit": 0, "ms": 9, "stdout": "a in 2s\n"}));
        assert_eq!(difference(&then, &now), None);
        let other = json!({"exit": 0, "stdout": "b in 2s\n"});
        assert_eq!(difference(&then, &other), Some(("stdout".into(), "a in <duration>\n".into(), "b in <duration>\n".into())));
        let fewer = json!({"exit": 0});
        assert_eq!(difference(&then, &fewer), Some(("stdout".into(), "a in <duration>\n".into(), "null".into())));
        assert_eq!(difference(&json!([1]), &json!([2])), Some((String::new(), "[1]".into(), "[2]".into())));
    }
}
