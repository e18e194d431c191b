//! `go test -json`: one event in each line, and lines that are no JSON for packages that did not build.

use super::ParsedReport;
use crate::run::{FailureReason, TestCaseOutcome, TestResult};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Default)]
struct GoTest {
    outcome: Option<TestCaseOutcome>,
    printed: String,
}

#[derive(Default)]
struct Package {
    tests: BTreeMap<String, GoTest>,
    order: Vec<String>,
    /// Of the package as a whole.
    end: Option<TestCaseOutcome>,
    printed: String,
    is_built: bool,
}

pub(super) fn parse(text: &str, stderr: &str) -> Result<ParsedReport, String> {
    let mut parsed = ParsedReport::default();
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    let mut is_known = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            other(line, stderr, &mut parsed);
            continue;
        };
        is_known = true;
        event_read(&event, &mut packages, &mut parsed);
    }
    if !is_known && parsed.broken.is_empty() {
        let line = stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("go printed no events");
        return Err(line.trim().to_owned());
    }
    for (name, package) in packages {
        finish(&name, package, &mut parsed);
    }
    Ok(parsed)
}

fn other(line: &str, stderr: &str, parsed: &mut ParsedReport) {
    if line.contains("[build failed]") || line.contains("[setup failed]") {
        let package = line.split_whitespace().nth(1).unwrap_or_default();
        let first = stderr.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty()).unwrap_or_default();
        parsed.broken.push(format!("the package {package} does not compile: {first}"));
    } else {
        parsed.doubts.push(format!("a line of the report is no event: {}", crate::run::head(line, 100)));
    }
}

fn event_read(event: &Value, packages: &mut BTreeMap<String, Package>, parsed: &mut ParsedReport) {
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    let (action, name, test) = (text("Action"), text("Package"), text("Test"));
    match action {
        "build-fail" => parsed.broken.push(format!("the package {} does not compile", text("ImportPath"))),
        "build-output" => {}
        _ if name.is_empty() => parsed.doubts.push("an event names no package".to_owned()),
        _ => {
            let package = packages.entry(name.to_owned()).or_insert_with(|| Package { is_built: true, ..Package::default() });
            if !text("FailedBuild").is_empty() {
                package.is_built = false;
            }
            let outcome = match action {
                "pass" => Some(TestCaseOutcome::Passed),
                "fail" => Some(TestCaseOutcome::Failed),
                "skip" => Some(TestCaseOutcome::Skipped),
                _ => None,
            };
            if test.is_empty() {
                match (action, outcome) {
                    ("output", _) => package.printed.push_str(text("Output")),
                    (_, Some(outcome)) => package.end = Some(outcome),
                    _ => {}
                }
                return;
            }
            if !package.tests.contains_key(test) {
                package.order.push(test.to_owned());
            }
            let found = package.tests.entry(test.to_owned()).or_default();
            match (action, outcome) {
                ("output", _) if found.printed.len() < 20_000 => found.printed.push_str(text("Output")),
                (_, Some(_)) if found.outcome.is_some() => parsed.doubts.push(format!("the test {name} {test} ends twice")),
                (_, Some(outcome)) => found.outcome = Some(outcome),
                _ => {}
            }
        }
    }
}

fn finish(name: &str, mut package: Package, parsed: &mut ParsedReport) {
    let mut bad = 0;
    let mut is_timed_out = package.printed.contains("panic: test timed out after");
    for test in std::mem::take(&mut package.order) {
        let Some(found) = package.tests.get(&test) else { continue };
        is_timed_out |= found.printed.contains("panic: test timed out after");
        let outcome = match found.outcome {
            Some(outcome) => outcome,
            None => TestCaseOutcome::Errored,
        };
        let mut result = TestResult::new(name, &test, outcome);
        if result.is_bad() {
            bad += 1;
            let (reason, message) = message(&found.printed);
            result = result.because(if found.outcome.is_none() { FailureReason::Exception } else { reason }, &message);
        }
        if found.outcome.is_none() {
            parsed.crashed.push(format!("the test {name} {test} began and did not end"));
        }
        parsed.tests.push(result);
    }
    if package.printed.contains("\t(cached)") {
        parsed.doubts.push(format!("the result of the package {name} is from a cache"));
    }
    match package.end {
        None if !is_timed_out => parsed.crashed.push(format!("the package {name} told no result")),
        Some(TestCaseOutcome::Failed) if !package.is_built => parsed.broken.push(format!("the package {name} does not compile")),
        Some(TestCaseOutcome::Failed) if bad == 0 => parsed.crashed.push(format!("the package {name} failed and none of its tests did")),
        Some(TestCaseOutcome::Passed) if bad > 0 => parsed.doubts.push(format!("the package {name} passed and {bad} of its tests did not")),
        _ => {}
    }
    if is_timed_out {
        parsed.is_timed_out = true;
        parsed.crashed.push(format!("the package {name} took longer than the time limit of `go test`"));
    }
}

fn message(printed: &str) -> (FailureReason, String) {
    let lines = || printed.lines().map(str::trim).filter(|line| !line.starts_with("=== ") && !line.starts_with("--- ") && !line.is_empty());
    match lines().find(|line| line.starts_with("panic: ")) {
        Some(panic) => (FailureReason::Exception, panic.to_owned()),
        None => (FailureReason::Assertion, lines().take(6).collect::<Vec<_>>().join("\n")),
    }
}
