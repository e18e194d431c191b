//! `docs/shortcomings.md` and `docs/acceptance.md` promise a scenario or a test for each row: are they there?
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every source file that can hold a test.
fn sources(folder: &Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("shortcomings.rs") {
            found.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

fn scenarios() -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join("crates/testkit/scenarios")).unwrap().flatten();
    entries.map(|entry| entry.path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

/// The rows of one heading: number and last column.
fn rows(text: &str, heading: &str) -> Vec<(usize, String)> {
    let part = text.split("\n## ").find(|part| part.starts_with(heading)).unwrap();
    let row = |line: &str| {
        let columns: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        Some((columns.first()?.parse().ok()?, (*columns.last()?).to_owned()))
    };
    part.lines().filter(|line| line.starts_with('|')).filter_map(row).collect()
}

#[test]
fn every_promise_is_shown_by_something_that_exists() {
    let scenarios = scenarios();
    let mut code = String::new();
    sources(&root().join("crates"), &mut code);
    for (file, heading, last) in [
        ("shortcomings", "Fluffy Waffle", 25),
        ("shortcomings", "KarnEvil9", 34),
        ("shortcomings", "HiveKernel", 24),
        ("acceptance", "Checklist", 21),
    ] {
        let text = std::fs::read_to_string(root().join(format!("docs/{file}.md"))).unwrap();
        let rows = rows(&text, heading);
        assert_eq!(rows.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>(), "{heading}");
        for (number, shown) in rows {
            let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
            assert!(!names.is_empty() || shown == "no such surface yet", "{heading} {number}: {shown}");
            for name in names {
                let is_test = code.contains(&format!("fn {name}(")) || code.contains(&format!("Test::new(\"{name}\""));
                assert!(scenarios.contains(name) || is_test, "{heading} {number}: there is neither a scenario nor a test `{name}`");
            }
        }
    }
}

#[test]
fn all_normative_cases_are_scenarios() {
    let scenarios = scenarios();
    for case in 1..=26 {
        let begins = format!("case_{case:02}_");
        assert!(scenarios.iter().any(|name| name.starts_with(&begins)), "{begins}… is missing");
    }
}
