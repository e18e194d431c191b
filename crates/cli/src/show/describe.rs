//! A call as a person would say it: `Reading src/a.rs`.

use super::call::words;
use super::measure::{bytes, plural};
use super::visible::with_ends;
use serde_json::Value;

/// What a record leaves of a text that is too long for it.
const CUT: &str = " bytes in all]";

pub fn describe(tool: &str, input: &Value) -> String {
    let text = |key: &str| input.get(key).map(scalar).unwrap_or_default();
    match tool {
        "fs.read" => format!("Reading {}", text("path")),
        "fs.write" => format!("Writing {}", text("path")),
        "fs.edit" => edit(input),
        "fs.patch" => patch(&text("patch")),
        "fs.delete" => format!("Deleting {}", text("path")),
        "fs.move" => format!("Moving {} to {}", text("from"), text("to")),
        "fs.exists" => format!("Looking for {}", text("path")),
        "fs.list" => format!("Listing {}", if text("path").is_empty() { ".".into() } else { text("path") }),
        "search.grep" => format!("Searching for {}", text("pattern")),
        "search.glob" => format!("Finding {}", text("pattern")),
        "shell.run" | "sandbox.run" => format!("Running {}", text("command")),
        "http.request" => http(input),
        "net.connect" => format!("Connecting to {}:{}", text("host"), text("port")),
        "net.request" => format!("Requesting {} {}:{}", text("method"), text("host"), text("port")),
        "git.status" => "Reading git's status".into(),
        "git.diff" => format!("Reading git's diff {}", text("path")).trim_end().to_owned(),
        "git.log" => format!("Reading git's log {}", text("path")).trim_end().to_owned(),
        "git.commit" => format!("Committing \"{}\"", text("message").lines().next().unwrap_or_default()),
        "token.issue" => token(input),
        "merge.apply" => {
            let files = input.get("changes").and_then(Value::as_array).map_or(0, Vec::len);
            format!("Merging {}", plural(files as u64, "file"))
        }
        "brain.run" => format!("Running {}", text("brain")),
        "person.ask" => format!("Asking you: {}", text("question")),
        "brain.use" => format!("Using {}", text("tool")),
        "test.run" => format!("Testing {}", text("args")).trim_end().to_owned(),
        "model.request" => format!("Asking {}", text("model")),
        tool => format!("Calling {tool} {}", pairs(input)).trim_end().to_owned(),
    }
}

/// A value on one line. A list of words reads as a command line does.
pub fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains('\n') => text.clone(),
        Value::String(text) => with_ends(text).into_owned(),
        Value::Array(items) if items.iter().all(Value::is_string) => words(items.iter().filter_map(Value::as_str)),
        value => value.to_string(),
    }
}

/// An input that nobody has words for, as it would be typed: `key=value`.
fn pairs(input: &Value) -> String {
    let Value::Object(fields) = input else { return if input.is_null() { String::new() } else { scalar(input) } };
    fields.iter().map(|(key, value)| format!("{key}={}", scalar(value))).collect::<Vec<_>>().join(" ")
}

/// `Editing src/a.rs +4 −1`; without the lines where the record has not all of them.
fn edit(input: &Value) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
    let (old, new) = (text("old"), text("new"));
    let mut said = format!("Editing {}", with_ends(text("path")));
    if !old.ends_with(CUT) && !new.ends_with(CUT) {
        let (added, removed) = changed_lines(old, new);
        said.push_str(&format!(" +{added} −{removed}"));
    }
    if input.get("all") == Some(&Value::Bool(true)) {
        said.push_str(", wherever it stands");
    }
    said
}

/// Lines that come and go between two texts, without those that both begin or end with.
fn changed_lines(old: &str, new: &str) -> (usize, usize) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    (new.len() - after, old.len() - after)
}

/// `Patching src/a.rs +4 −1`, or how many files.
fn patch(patch: &str) -> String {
    let name = |line: &str| line.split('\t').next().unwrap_or_default().trim_start_matches("b/").trim_start_matches("a/").to_owned();
    let (mut files, mut from, mut added, mut removed) = (Vec::new(), String::new(), 0, 0);
    for line in patch.lines() {
        match (line.strip_prefix("--- "), line.strip_prefix("+++ ")) {
            (Some(path), _) => from = name(path),
            (_, Some(path)) if path.starts_with("/dev/null") => files.push(std::mem::take(&mut from)),
            (_, Some(path)) => files.push(name(path)),
            _ if line.starts_with('+') => added += 1,
            _ if line.starts_with('-') => removed += 1,
            _ => {}
        }
    }
    let what = match files.as_slice() {
        [one] => one.clone(),
        files => plural(files.len() as u64, "file"),
    };
    if patch.ends_with(CUT) { format!("Patching {what} and more") } else { format!("Patching {what} +{added} −{removed}") }
}

/// `Requesting POST https://example.com/a with 12 B`.
fn http(input: &Value) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let sent = text("body").map(|body| format!(" with {}", bytes(body.len() as u64))).unwrap_or_default();
    format!("Requesting {} {}{sent}", text("method").unwrap_or("GET"), text("url").unwrap_or_default())
}

/// `Issuing a token for fs.write on src/** (3 uses)`.
fn token(input: &Value) -> String {
    let paths = input.get("paths").and_then(Value::as_array).filter(|paths| !paths.is_empty());
    let on = paths.map(|paths| format!(" on {}", paths.iter().map(scalar).collect::<Vec<_>>().join(", "))).unwrap_or_default();
    let uses = input.get("max_ops").and_then(Value::as_u64).unwrap_or(1);
    format!("Issuing a token for {}{on} ({})", input.get("tool").map(scalar).unwrap_or_default(), plural(uses, "use"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_reads_like_a_sentence() {
        for (tool, input, expected) in [
            ("fs.read", json!({"path": "src/a.rs"}), "Reading src/a.rs"),
            ("shell.run", json!({"command": ["sh", "-c", "echo hi"]}), "Running sh -c 'echo hi'"),
            ("shell.run", json!({"command": ["rm", "'a", "b'"]}), r"Running rm ''\''a' 'b'\'''"),
            ("test.run", json!({}), "Testing"),
            ("merge.apply", json!({"changes": ["a", "b"]}), "Merging 2 files"),
            ("fs.list", json!({}), "Listing ."),
            ("fs.move", json!({"from": "a", "to": "b"}), "Moving a to b"),
            ("git.commit", json!({"message": "fix\n\nmore"}), "Committing \"fix\""),
            ("x.y", json!({"a": 1, "b": ["c", "d e"]}), "Calling x.y a=1 b=c 'd e'"),
            ("x.y", json!({}), "Calling x.y"),
        ] {
            assert_eq!(describe(tool, &input), expected);
        }
    }

    #[test]
    fn an_edit_says_how_many_lines_come_and_go() {
        let edit = |old: &str, new: &str| describe("fs.edit", &json!({"path": "tests/test_money.py", "old": old, "new": new}));
        assert_eq!(
            edit("def a():\n    pass\n", "def a():\n    one()\n    two()\n    three()\n    four()\n"),
            "Editing tests/test_money.py +4 −1"
        );
        assert_eq!(edit("a\nb\nc", "a\nc"), "Editing tests/test_money.py +0 −1");
        assert_eq!(edit("x… [9000 bytes in all]", "y"), "Editing tests/test_money.py", "nobody counts what is not there");
        let all = json!({"path": "a", "old": "b", "new": "c", "all": true});
        assert_eq!(describe("fs.edit", &all), "Editing a +1 −1, wherever it stands");
        let patch = "--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n+d\n";
        assert_eq!(describe("fs.patch", &json!({ "patch": patch })), "Patching x.rs +2 −1");
        let two = format!("{patch}--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n");
        assert_eq!(describe("fs.patch", &json!({ "patch": two })), "Patching 2 files +2 −2");
    }

    #[test]
    fn requests_and_tokens_have_words_too() {
        assert_eq!(describe("http.request", &json!({"url": "https://a.test/x"})), "Requesting GET https://a.test/x");
        let post = json!({"url": "https://a.test/", "method": "POST", "body": "hello"});
        assert_eq!(describe("http.request", &post), "Requesting POST https://a.test/ with 5 B");
        let token = json!({"tool": "fs.*", "paths": ["src/**", "a"], "max_ops": 3, "ttl_ms": 1_000});
        assert_eq!(describe("token.issue", &token), "Issuing a token for fs.* on src/**, a (3 uses)");
    }
}
