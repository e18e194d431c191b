//! Examples in the documentation of sources, which runners take for tests: Python's `>>>` and what is fenced in Rust's comments.

use crate::lex::SourceLanguage;
use std::collections::BTreeMap;

/// How many lines of examples are not there any more. Examples that come are no loss.
pub(super) fn lost_examples(path: &str, before: &str, after: &str) -> usize {
    let read: fn(&str) -> Vec<&str> = match SourceLanguage::of(path) {
        Some(SourceLanguage::Python) => python,
        Some(SourceLanguage::Rust) => rust,
        _ => return 0,
    };
    let mut left: BTreeMap<&str, i64> = BTreeMap::new();
    read(before).into_iter().for_each(|line| *left.entry(line).or_default() += 1);
    read(after).into_iter().for_each(|line| *left.entry(line).or_default() -= 1);
    left.into_values().filter_map(|count| usize::try_from(count).ok()).sum()
}

/// What is typed, and what is expected below it up to an empty line or the end of the text.
fn python(text: &str) -> Vec<&str> {
    let mut is_example = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        is_example = line.starts_with(">>>") || is_example && !line.is_empty() && !line.contains("\"\"\"") && !line.contains("'''");
        if is_example {
            lines.push(line);
        }
    }
    lines
}

/// What is between fences, with the words of the fences: `no_run` and `ignore` are among them.
fn rust(text: &str) -> Vec<&str> {
    let mut is_example = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some(line) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim) else {
            is_example = false;
            continue;
        };
        let is_fence = line.starts_with("```");
        if is_example || is_fence {
            lines.push(line);
        }
        is_example ^= is_fence;
    }
    lines
}
