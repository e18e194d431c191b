//! The JSON of jest, which vitest writes too.

use super::{ParsedReport, reason_of};
use crate::run::{TestCaseOutcome, TestResult, head};
use serde_json::Value;

/// What jest says of a file whose worker is gone.
const DEAD: [&str; 3] = ["was terminated by another process", "Call retries were exceeded", "child process exceptions"];

pub(super) fn parse(text: &str) -> Result<ParsedReport, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| format!("the report is no JSON: {error}"))?;
    let files = report["testResults"].as_array().ok_or_else(|| "the report lists no files of tests".to_owned())?;
    let mut parsed = ParsedReport { is_failed: report["success"] == Value::Bool(false) && !files.is_empty(), ..ParsedReport::default() };
    for file in files {
        let name = file["name"].as_str().unwrap_or_default();
        let tests = file["assertionResults"].as_array().map(Vec::as_slice).unwrap_or_default();
        if tests.is_empty() && file["status"] == "failed" {
            let said = file["message"].as_str().unwrap_or_default().lines().map(str::trim);
            let is_dead = said.clone().any(|line| DEAD.iter().any(|mark| line.contains(mark)));
            let said: Vec<&str> = said.filter(|line| !line.is_empty() && !line.contains("Test suite failed to run")).take(2).collect();
            let what = head(&said.join(" "), 300).to_owned();
            match is_dead {
                true => parsed.crashed.push(format!("the process of {} died: {what}", short(name))),
                false => parsed.broken.push(format!("{} has no tests that can be run: {what}", short(name))),
            }
        }
        for test in tests {
            parsed.tests.push(one(name, test)?);
        }
    }
    totals(&report, &mut parsed);
    Ok(parsed)
}

fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn one(file: &str, test: &Value) -> Result<TestResult, String> {
    let outcome = match test["status"].as_str() {
        Some("passed") => TestCaseOutcome::Passed,
        Some("failed") => TestCaseOutcome::Failed,
        Some("pending" | "skipped" | "todo" | "disabled" | "focused") => TestCaseOutcome::Skipped,
        other => return Err(format!("the report has a test with the state {other:?}")),
    };
    let title = test["fullName"].as_str().or_else(|| test["title"].as_str()).unwrap_or_default();
    let result = TestResult::new(file, title, outcome).in_file(file);
    if outcome != TestCaseOutcome::Failed {
        return Ok(result);
    }
    let message = test["failureMessages"][0].as_str().unwrap_or_default();
    Ok(result.because(reason_of(message), message))
}

/// The report's own numbers must be those of what it lists.
fn totals(report: &Value, parsed: &mut ParsedReport) {
    let number = |name: &str| report[name].as_u64();
    let listed = |outcome: TestCaseOutcome| parsed.tests.iter().filter(|test| test.outcome == outcome).count() as u64;
    let counts = [
        ("numTotalTests", parsed.tests.len() as u64),
        ("numPassedTests", listed(TestCaseOutcome::Passed)),
        ("numFailedTests", listed(TestCaseOutcome::Failed)),
    ];
    for (name, listed) in counts {
        if number(name) != Some(listed) {
            let told = number(name).map_or_else(|| "nothing".to_owned(), |number| number.to_string());
            parsed.doubts.push(format!("the report says {told} for `{name}` and lists {listed}"));
        }
    }
    if report["wasInterrupted"] == Value::Bool(true) {
        parsed.doubts.push("the run was interrupted".to_owned());
    }
    let written: u64 = ["added", "updated"].iter().filter_map(|name| report["snapshot"][*name].as_u64()).sum();
    if written > 0 {
        parsed.doubts.push(format!("the run itself wrote {written} snapshots"));
    }
}
