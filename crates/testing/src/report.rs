//! Readers of reports, one file for each form. Each turns a text into tests and doubts, and none decides what they prove.
//!
//! **Invariant.** A text that is no whole report is an error or a doubt, and never a report with fewer tests.

mod cargo;
mod go;
mod jest;
mod junit;
mod libtest;
mod summary;
mod tap;

use crate::run::{FailureReason, TestResult, TestTotals};
use crate::runner::ReportFormat;

pub use summary::{TestCount, count_tests};

/// What a report says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedReport {
    pub tests: Vec<TestResult>,
    /// Totals of a report that lists no tests.
    pub counted: Option<TestTotals>,
    /// What did not compile or could not be collected.
    pub broken: Vec<String>,
    /// What died.
    pub crashed: Vec<String>,
    /// Where the report contradicts itself.
    pub doubts: Vec<String>,
    /// The report says of the whole run that it failed.
    pub is_failed: bool,
    /// The runner's own time limit was over.
    pub is_timed_out: bool,
}

/// Reads a report. `stderr` helps where the runner says there what did not compile.
pub(crate) fn parse(format: ReportFormat, text: &str, stderr: &str) -> Result<ParsedReport, String> {
    match format {
        ReportFormat::CargoText => cargo::parse(text, stderr),
        ReportFormat::LibtestJson => libtest::parse(text, stderr),
        ReportFormat::GoJson => go::parse(text, stderr),
        ReportFormat::JestJson => jest::parse(text),
        ReportFormat::Junit => junit::parse(text),
        ReportFormat::Tap => tap::parse(text),
        ReportFormat::Text => self::text(text),
        ReportFormat::Any => match text.trim_start_matches('\u{feff}').trim_start() {
            text if text.starts_with('<') => junit::parse(text),
            text if text.starts_with('{') && text.contains("\"testResults\"") => jest::parse(text),
            text if text.starts_with('{') && text.contains("\"Action\"") => go::parse(text, stderr),
            text if text.starts_with('{') => libtest::parse(text, stderr),
            text => tap::parse(text),
        },
    }
}

/// Output of a command that nobody knows: TAP if it is that, else a count.
pub(crate) fn text(output: &str) -> Result<ParsedReport, String> {
    if let Some(start) = output.find("TAP version 1").filter(|at| *at == 0 || output.as_bytes()[at - 1] == b'\n') {
        return tap::parse(&output[start..]);
    }
    let counted = count_tests(output).ok_or_else(|| "the command counted no tests".to_owned())?;
    let mut parsed = ParsedReport {
        counted: Some(TestTotals { passed: counted.passed, failed: counted.failed, ..TestTotals::default() }),
        ..ParsedReport::default()
    };
    if output.contains("unittest.loader._FailedTest") {
        parsed.broken.push("a module of tests could not be imported".to_owned());
    }
    Ok(parsed)
}

/// Errors of an interpreter that mean: the code is not there yet, or wrong before anything is asserted.
fn is_exception(name: &str) -> bool {
    let ends = ["Error", "Exception"].iter().any(|end| name.ends_with(end));
    ends && !name.contains("Assertion") && !name.contains("ExpectationFailed")
}

/// The reason by the head of a message: `AssertionError: …` and `assert …` are assertions, `NameError: …` is none.
fn reason_of(message: &str) -> FailureReason {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = line.strip_prefix("Error: ").unwrap_or(line);
    if line.starts_with("assert") || line.starts_with("expect(") || line.contains("AssertionError") || line.starts_with("Failed: DID NOT") {
        return FailureReason::Assertion;
    }
    let word = line.split([':', ' ', '(']).next().unwrap_or_default();
    let name = word.rsplit('.').next().unwrap_or_default();
    if is_exception(name) { FailureReason::Exception } else { FailureReason::Unknown }
}

#[cfg(test)]
mod tests;
