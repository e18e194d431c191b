//! One maker of facts and one judge: whoever judges a call goes through `call_facts.rs` and `judge.rs` in `crates/gate/src`.
//!
//! A second place that fills in `policy::Facts` leaves something out sooner or later, and the rule that needed it is silent there. So
//! outside `crates/policy` the types may be looked at through a reference, and made in one file.

use crate::run::root;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

const MAKERS: [&str; 5] = [
    "crates/gate/src/call_facts.rs",
    // The policy's own corpus, which needs `tool` to read paths.
    "crates/testkit/tests/corpus.rs",
    // Tests of the walk over a project, with readers of their own.
    "crates/workspace/src/mask/tests.rs",
    // Benches that measure `decide` alone, and decide nothing.
    "xtask/benches/bin/policy.rs",
    "xtask/rivals/src/main.rs",
];

/// The one file that asks for a verdict, besides those above.
const JUDGE: &str = "crates/gate/src/judge.rs";

pub fn have_one_maker() -> Result<()> {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files)?;
    sources(&root().join("xtask"), &mut files)?;
    for file in files {
        let name = file.strip_prefix(root())?.to_string_lossy().into_owned();
        if name.starts_with("crates/policy/") || MAKERS.contains(&name.as_str()) || name == file!() {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        let found = makers(&text);
        ensure!(found.is_empty(), "{name}:{} makes facts of its own; describe the call in {}", found[0], MAKERS[0]);
        let found = judges(&text);
        ensure!(name == JUDGE || found.is_empty(), "{name}:{} judges calls of its own; that is for {JUDGE}", found[0]);
    }
    Ok(())
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Lines that could ask a policy for a verdict: facts can be copied and changed without a word about their type.
fn judges(text: &str) -> Vec<usize> {
    let is_verb = |word: &str| ["decide", "explain"].contains(&word);
    let word = |rest: &str| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    let text: String = text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    for (at, path) in text.match_indices("policy::") {
        let is_name = text[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let rest = &text[at + path.len()..];
        let list = rest.strip_prefix('{').and_then(|list| list.split('}').next()).unwrap_or_default();
        let mut listed = list.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        if !is_name && (is_verb(&word(rest)) || listed.any(is_verb)) {
            found.push(text[..at].matches('\n').count() + 1);
        }
    }
    found
}

/// Lines that could make a policy's facts: an import that brings the types in, or a mention that is no reference.
fn makers(text: &str) -> Vec<usize> {
    let text: String = text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use policy::") {
        let statement = text[at..].split(';').next().unwrap_or_default();
        let mut words = statement.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '*');
        if words.any(|word| ["Facts", "OwnedFacts", "facts", "*"].contains(&word)) {
            found.push(line(at));
        }
    }
    // Under another name of the crate nothing below would be seen.
    for alias in ["policy as ", "policy::{self as "] {
        found.extend(text.match_indices(alias).map(|(at, _)| line(at)));
    }
    for word in ["policy::Facts", "OwnedFacts"] {
        for (at, _) in text.match_indices(word) {
            let before = text[..at].trim_end_matches("policy::");
            let is_name = before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
            if !is_name && !before.ends_with('&') {
                found.push(line(at));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maker_is_found_in_every_dress() {
        for text in [
            "let facts = policy::Facts { tool };",
            "let facts = policy::OwnedFacts::of(tool);",
            "use policy::{Action,\n    Facts, RealPath};",
            "use policy::OwnedFacts;",
            "use policy::Facts as Told;",
            "use policy::*;",
            "use policy as p;\nlet facts = p::Facts { tool };",
            "use policy::{self as p, RealPath};",
            "extern crate policy as p;",
            "use ::policy::Facts;",
            "use policy::facts;",
            "let kept: policy::OwnedFacts = serde_json::from_str(text)?;",
            "fn made() -> policy::Facts<'static> {",
        ] {
            assert!(!makers(text).is_empty(), "{text}");
        }
        for text in [
            "fn described(facts: &policy::OwnedFacts, input: &Value) -> Value {",
            "fn look(facts: &policy::Facts<'_>) {}",
            "use policy::{OwnedPath, RealPath};",
            "struct Facts { call: CallFacts }",
            "// policy::Facts { are made elsewhere",
        ] {
            assert!(makers(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_judge_is_found_in_every_dress() {
        for text in [
            "let verdict = seen.clone().with(|facts| policy::decide(&policy, facts, &standing));",
            "use policy::{Action,\n    decide, RealPath};",
            "use policy::decide;",
            "::policy::explain(policy, facts, &standing)",
        ] {
            assert_eq!(judges(text).len(), 1, "{text}");
        }
        for text in ["policy::explained(&tool)", "use policy::{Policy, Verdict};", "// policy::decide decides", "my_policy::decide()"] {
            assert!(judges(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_tree_has_one_maker_of_facts() {
        have_one_maker().unwrap();
    }
}
