//! Cuts a result to a number of bytes: first long texts, then long lists, and if all that does not help, everything.

use crate::manifest::Truncate;
use serde_json::{Map, Value, json};

/// Texts are not cut below this while a list could be shortened instead.
const TEXT_BYTES_MIN: usize = 400;
/// For what a cut says about itself.
const MARKER_BYTES: usize = 80;

/// A list that lost items.
struct Cut {
    /// A JSON pointer.
    path: String,
    gone: usize,
    of: usize,
}

impl Cut {
    fn told(&self) -> Value {
        let name = if self.path.is_empty() { "the list".to_owned() } else { self.path.trim_start_matches('/').replace('/', ".") };
        format!("{name}: {} of {} items", self.gone, self.of).into()
    }
}

/// About what a value costs to read: its texts, names and numbers, and something for each.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + size(field) + 4).sum::<usize>() + 2,
    }
}

/// Brings a value down to `max` bytes.
pub(super) fn fit(value: &mut Value, max: usize, strategy: Truncate) {
    if size(value) <= max {
        return;
    }
    cut_texts(value, max, strategy, TEXT_BYTES_MIN);
    let mut cuts: Vec<Cut> = Vec::new();
    // Each round shortens the longest list that is left; a result has few.
    for _ in 0..32 {
        let over = (size(value) + MARKER_BYTES * cuts.len().max(1)).saturating_sub(max);
        if over == 0 || !cut_longest_list(value, over, strategy, &mut cuts) {
            break;
        }
    }
    if let (Value::Object(fields), false) = (&mut *value, cuts.is_empty()) {
        fields.insert("left_out".to_owned(), cuts.iter().map(Cut::told).collect());
    }
    if size(value) > max {
        cut_texts(value, max, strategy, MARKER_BYTES);
    }
    if size(value) > max {
        let whole = value.to_string();
        *value = json!({ "shortened": cut(&whole, max.saturating_sub(MARKER_BYTES / 2), strategy) });
    }
}

/// Cuts all texts that are longer than some length, which is the greatest with which the whole fits.
fn cut_texts(value: &mut Value, max: usize, strategy: Truncate, least: usize) {
    let mut lengths = Vec::new();
    texts(value, &mut |text| lengths.push(text.len()));
    lengths.sort_unstable();
    let fixed = size(value) - lengths.iter().sum::<usize>();
    let mut room = max.saturating_sub(fixed);
    let mut limit = usize::MAX;
    for (index, length) in lengths.iter().enumerate() {
        let share = room / (lengths.len() - index);
        if *length > share {
            limit = share;
            break;
        }
        room -= length;
    }
    let limit = limit.max(least);
    texts(value, &mut |text| {
        if text.len() > limit {
            *text = cut(text, limit, strategy);
        }
    });
}

fn texts(value: &mut Value, act: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => act(text),
        Value::Array(items) => items.iter_mut().for_each(|item| texts(item, act)),
        Value::Object(fields) => fields.values_mut().for_each(|field| texts(field, act)),
        _ => {}
    }
}

/// A text of at most `max` bytes with a word about what is missing.
fn cut(text: &str, max: usize, strategy: Truncate) -> String {
    let keep = max.saturating_sub(MARKER_BYTES);
    let (head, tail) = match strategy {
        Truncate::Head => (keep, 0),
        Truncate::Tail => (0, keep),
        Truncate::Middle => (keep / 2, keep - keep / 2),
    };
    let head = &text[..text.floor_char_boundary(head)];
    let tail = &text[text.ceil_char_boundary(text.len() - tail.min(text.len()))..];
    let gone = text.len() - head.len() - tail.len();
    let [before, after] = [head, tail].map(|part| if part.is_empty() { "" } else { "\n" });
    format!("{head}{before}[{gone} of {} bytes left out]{after}{tail}", text.len())
}

/// Takes items out of the largest list, at least `over` bytes if it has them. False when no list is left to shorten.
fn cut_longest_list(value: &mut Value, over: usize, strategy: Truncate, cuts: &mut Vec<Cut>) -> bool {
    let Some((path, _)) = longest_list(value) else { return false };
    let Some(Value::Array(items)) = value.pointer_mut(&path) else { return false };
    let before = items.len();
    let (mut freed, mut gone) = (0, 0);
    while freed < over && before > gone + 1 {
        gone += 1;
        // The newest end of the gap that will be.
        let at = match strategy {
            Truncate::Head => before - gone,
            Truncate::Tail => gone - 1,
            Truncate::Middle if (before - gone).is_multiple_of(2) => (before - gone) / 2,
            Truncate::Middle => (before - gone) / 2 + gone,
        };
        freed += items.get(at).map_or(0, size) + 1;
    }
    if gone == 0 {
        return false;
    }
    let start = match strategy {
        Truncate::Head => before - gone,
        Truncate::Tail => 0,
        Truncate::Middle => (before - gone).div_ceil(2),
    };
    items.drain(start..start + gone);
    match cuts.iter_mut().find(|cut| cut.path == path) {
        Some(cut) => cut.gone += gone,
        None => cuts.push(Cut { path, gone, of: before }),
    }
    true
}

/// Where the largest list with something to spare is, as a JSON pointer.
fn longest_list(value: &Value) -> Option<(String, usize)> {
    let below = |name: String, field: &Value| longest_list(field).map(|(path, bytes)| (format!("/{name}{path}"), bytes));
    let inner = match value {
        Value::Array(items) => items.iter().enumerate().filter_map(|(at, item)| below(at.to_string(), item)).max_by_key(|found| found.1),
        Value::Object(fields) => object_lists(fields, below),
        _ => None,
    };
    let own = value.as_array().filter(|items| items.len() > 1).map(|_| (String::new(), size(value)));
    own.into_iter().chain(inner).max_by_key(|found| found.1)
}

fn object_lists(fields: &Map<String, Value>, below: impl Fn(String, &Value) -> Option<(String, usize)>) -> Option<(String, usize)> {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    fields.iter().filter_map(|(name, field)| below(escaped(name), field)).max_by_key(|found| found.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(mut value: Value, max: usize, strategy: Truncate) -> Value {
        fit(&mut value, max, strategy);
        assert!(size(&value) <= max, "{} > {max}: {value}", size(&value));
        value
    }

    #[test]
    fn what_fits_is_left_alone() {
        let value = json!({ "a": "x".repeat(100), "b": [1, 2, 3] });
        assert_eq!(fitted(value.clone(), 200, Truncate::Head), value);
    }

    #[test]
    fn short_texts_stay_whole_beside_a_long_one() {
        let value = fitted(json!({ "stdout": "o".repeat(50_000), "stderr": "error: no" }), 2_000, Truncate::Tail);
        assert_eq!(value["stderr"], "error: no");
        let told = value["stdout"].as_str().unwrap();
        assert!(told.starts_with('[') && told.contains("of 50000 bytes left out]\n") && told.len() > 1_500, "{told}");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for max in 200..220 {
            fitted(json!({ "t": "é€😀".repeat(500) }), max, Truncate::Middle);
        }
    }

    #[test]
    fn long_lists_lose_items_by_strategy_and_say_so() {
        let list = || json!({ "matches": (0..1000).map(|n| json!({ "line": n, "text": "some text" })).collect::<Vec<_>>() });
        let lines = |value: &Value| {
            let lines: Vec<u64> = value["matches"].as_array().unwrap().iter().filter_map(|m| m["line"].as_u64()).collect();
            (lines[0], lines[lines.len() - 1], lines.len())
        };
        let head = fitted(list(), 2_000, Truncate::Head);
        let (first, last, count) = lines(&head);
        assert_eq!(
            (first, last, head["left_out"][0].as_str()),
            (0, count as u64 - 1, Some(&*format!("matches: {} of 1000 items", 1000 - count)))
        );
        let (first, last, _) = lines(&fitted(list(), 2_000, Truncate::Tail));
        assert!(first > 900 && last == 999);
        let (first, last, count) = lines(&fitted(list(), 2_000, Truncate::Middle));
        assert!(first == 0 && last == 999 && count > 20, "{count}");
    }

    #[test]
    fn whatever_it_is_it_fits_in_the_end() {
        let names: Map<String, Value> = (0..2000).map(|n| (format!("name{n}"), json!(n))).collect();
        assert!(fitted(Value::Object(names), 1_000, Truncate::Head)["shortened"].is_string());
        let nested = (0..50).map(|_| vec!["t".repeat(300); 50]).collect::<Vec<_>>();
        fitted(json!({ "n": nested }), 1_000, Truncate::Middle);
        fitted(json!("x".repeat(9_000)), 500, Truncate::Head);
    }
}
