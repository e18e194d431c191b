//! libtest's JSON lines, as `cargo nextest --message-format libtest-json` prints them.

use super::{ParsedReport, reason_of};
use crate::run::{FailureReason, TestCaseOutcome, TestResult};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn parse(text: &str, stderr: &str) -> Result<ParsedReport, String> {
    let mut parsed = ParsedReport::default();
    let (mut open, mut listed, mut suites) = (BTreeSet::<String>::new(), BTreeSet::new(), 0_i64);
    let mut is_known = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            parsed.doubts.push("a line of the report is no JSON".to_owned());
            continue;
        };
        let (kind, what) = (event["type"].as_str().unwrap_or_default(), event["event"].as_str().unwrap_or_default());
        let name = event["name"].as_str().unwrap_or_default();
        match (kind, what) {
            ("suite", "started") => {
                is_known = true;
                suites += 1;
            }
            ("suite", "ok" | "failed") => {
                suites -= 1;
                parsed.is_failed |= what == "failed";
                // A test that is ignored begins and does not end; the program's result counts it.
                if (open.len() as u64) <= event["ignored"].as_u64().unwrap_or(0) {
                    for name in std::mem::take(&mut open) {
                        listed.insert(name.clone());
                        parsed.tests.push(test(&name, "ignored", ""));
                    }
                }
            }
            ("test", "started") => {
                open.insert(name.to_owned());
            }
            ("test", "ok" | "failed" | "ignored" | "timeout") => {
                open.remove(name);
                if !listed.insert(name.to_owned()) {
                    parsed.doubts.push(format!("the test {name} ends twice"));
                }
                parsed.tests.push(test(name, what, event["stdout"].as_str().unwrap_or_default()));
            }
            _ => {}
        }
    }
    notes(stderr, &mut parsed);
    if !is_known && parsed.broken.is_empty() {
        let error = stderr.lines().find(|line| line.trim_start().starts_with("error"));
        let is_empty = stderr.contains("no tests to run") || stderr.contains("no tests run");
        if !is_empty {
            return Err(error.map_or_else(|| "the report names no test program".to_owned(), |line| line.trim().to_owned()));
        }
    }
    for name in open {
        parsed.crashed.push(format!("the test {name} began and did not end"));
    }
    if suites > 0 && parsed.crashed.is_empty() {
        parsed.doubts.push("a test program began and told no result".to_owned());
    }
    Ok(parsed)
}

/// `crate::binary$module::test`
fn test(name: &str, what: &str, printed: &str) -> TestResult {
    let (suite, name) = name.split_once('$').unwrap_or(("", name));
    let outcome = match what {
        "ok" => TestCaseOutcome::Passed,
        "ignored" => TestCaseOutcome::Skipped,
        "timeout" => TestCaseOutcome::Errored,
        _ => TestCaseOutcome::Failed,
    };
    let test = TestResult::new(suite, name, outcome);
    if outcome == TestCaseOutcome::Passed || outcome == TestCaseOutcome::Skipped {
        return test;
    }
    let message: Vec<&str> = printed.lines().skip_while(|line| !line.contains(" panicked at ")).skip(1).take(12).collect();
    let message = if message.is_empty() { printed.to_owned() } else { message.join("\n") };
    let reason = if message.starts_with("assertion") { FailureReason::Assertion } else { reason_of(&message) };
    test.because(reason, &message)
}

fn notes(stderr: &str, parsed: &mut ParsedReport) {
    if stderr.lines().any(|line| line.starts_with("error: could not compile")) {
        let first = stderr.lines().find(|line| line.starts_with("error")).unwrap_or_default();
        parsed.broken.push(format!("the code does not compile: {first}"));
    }
    // `     SIGSEGV [   0.004s] crate test`
    let is_signal = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("SIG")
            && line.split_once(" [").is_some_and(|(name, _)| name.trim().chars().all(|letter| letter.is_ascii_uppercase()))
    };
    parsed.crashed.extend(stderr.lines().find(is_signal).map(|line| line.trim().to_owned()));
}
