//! One run of a project's tests: what each test did, and what the run as a whole proves.
//!
//! **Invariant.** Nothing is believed that stands alone: exit code and report must say the same, else the verdict is that they do not. Only
//! [`RunVerdict::Passed`] is a green run and only [`RunVerdict::Failed`] a red one; all else proves neither.
//! *Does not know* whether code under test forged its own result: whoever writes the tests' code can write a reporter too.

use crate::limits::{MESSAGE_BYTES_MAX, NAME_BYTES_MAX, REMARKS_MAX, REPORT_BYTES_MAX, TESTS_MAX};
use crate::report::{self, ParsedReport};
use crate::runner::{ReportFormat, ReportPlace, ReportingCommand, RunnerKind, TestRunner};
use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandEnd {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    /// The reason, for people.
    NotStarted(String),
}

/// What a run left behind.
#[derive(Clone, Debug)]
pub struct RunOutput<'a> {
    pub end: CommandEnd,
    pub stdout: &'a [u8],
    pub stderr: &'a [u8],
    /// The report file, where [`ReportingCommand::place`] names one; `None` if it is not there.
    pub report: Option<&'a [u8]>,
    /// Whether the output was cut because it was too long.
    pub is_cut: bool,
    /// The project's folder as the run saw it, so that paths in reports become relative.
    pub root: &'a str,
}

/// What one test did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestCaseOutcome {
    Passed,
    Failed,
    Skipped,
    /// It could not be carried out: its set-up failed, or it never ended.
    Errored,
}

/// Why a test failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// What it asserts does not hold.
    Assertion,
    /// The code broke before that: a name that is not there, a panic, a wrong type.
    Exception,
    /// The report does not tell.
    Unknown,
}

/// One test of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestResult {
    /// The program, package or class that it belongs to, where two of them may have tests of one name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suite: String,
    pub name: String,
    /// Relative to the project, where the report says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub outcome: TestCaseOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// The head of what it said when it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl TestResult {
    pub(crate) fn new(suite: &str, name: &str, outcome: TestCaseOutcome) -> TestResult {
        let (suite, name) = (head(suite, NAME_BYTES_MAX).to_owned(), head(name, NAME_BYTES_MAX).to_owned());
        TestResult { suite, name, file: None, outcome, reason: None, message: String::new() }
    }

    pub(crate) fn because(mut self, reason: FailureReason, message: &str) -> TestResult {
        self.reason = Some(reason);
        head(message.trim(), MESSAGE_BYTES_MAX).clone_into(&mut self.message);
        self
    }

    pub(crate) fn in_file(mut self, file: &str) -> TestResult {
        self.file = (!file.is_empty()).then(|| head(file, NAME_BYTES_MAX).to_owned());
        self
    }

    /// By this it is the same test in another run.
    pub fn id(&self) -> (&str, &str) {
        (&self.suite, &self.name)
    }

    /// Suite and name, as people read them.
    pub fn title(&self) -> String {
        if self.suite.is_empty() { self.name.clone() } else { format!("{} {}", self.suite, self.name) }
    }

    /// Failed or errored.
    pub fn is_bad(&self) -> bool {
        matches!(self.outcome, TestCaseOutcome::Failed | TestCaseOutcome::Errored)
    }
}

/// What a run proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// At least one test ran, none failed, and the exit code says so too.
    Passed,
    /// At least one test ran and failed, everything compiled, and the exit code says so too.
    Failed,
    /// Something did not compile, or tests could not be collected.
    CompileError,
    /// The tests' process died, or ended before its tests did.
    Crashed,
    /// No test ran.
    NoTests,
    TimedOut,
    /// The runner is not there, or did not understand how it was called.
    NotStarted,
    /// There is no report, or it cannot be read.
    Unreadable,
    /// Report and exit code, or two parts of the report, say different things.
    Contradictory,
}

impl RunVerdict {
    /// As people read it.
    pub fn title(self) -> &'static str {
        match self {
            RunVerdict::Passed => "passed",
            RunVerdict::Failed => "failed",
            RunVerdict::CompileError => "did not compile",
            RunVerdict::Crashed => "crashed",
            RunVerdict::NoTests => "ran no tests",
            RunVerdict::TimedOut => "took too long",
            RunVerdict::NotStarted => "did not start",
            RunVerdict::Unreadable => "left no report that can be read",
            RunVerdict::Contradictory => "contradicts itself",
        }
    }
}

/// How many tests did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestTotals {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    pub errored: u64,
}

impl TestTotals {
    /// Passed, failed and errored: those that were tried.
    pub fn ran(&self) -> u64 {
        self.passed.saturating_add(self.failed).saturating_add(self.errored)
    }

    pub fn of(tests: &[TestResult]) -> TestTotals {
        let count = |outcome: TestCaseOutcome| tests.iter().filter(|test| test.outcome == outcome).count() as u64;
        TestTotals {
            passed: count(TestCaseOutcome::Passed),
            failed: count(TestCaseOutcome::Failed),
            skipped: count(TestCaseOutcome::Skipped),
            errored: count(TestCaseOutcome::Errored),
        }
    }
}

/// One run, read and judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    pub kind: RunnerKind,
    pub verdict: RunVerdict,
    /// Why the verdict is what it is: one sentence each.
    pub remarks: Vec<String>,
    pub totals: TestTotals,
    /// Empty where the runner only prints how many there were.
    pub tests: Vec<TestResult>,
}

impl TestRun {
    /// Failed tests whose own assertion failed. A run without any was not red for the right reason.
    pub fn failed_assertions(&self) -> impl Iterator<Item = &TestResult> {
        self.tests.iter().filter(|test| test.reason == Some(FailureReason::Assertion))
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let TestTotals { passed, failed, skipped, errored } = self.totals;
        let mut text = format!("{}: {passed} passed, {failed} failed", self.verdict.title());
        for (number, word) in [(errored, "errored"), (skipped, "skipped")] {
            if number > 0 {
                text.push_str(&format!(", {number} {word}"));
            }
        }
        if let Some(remark) = self.remarks.first() {
            text.push_str(&format!(" ({remark})"));
        }
        text
    }
}

/// Tests that did not do the same in two runs of one tree.
pub fn unstable_tests(first: &TestRun, second: &TestRun) -> Vec<String> {
    let outcomes = |run: &TestRun| {
        let of = |test: &TestResult| ((test.suite.clone(), test.name.clone()), test.outcome);
        run.tests.iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (first, second) = (outcomes(first), outcomes(second));
    let mut ids: Vec<&(String, String)> = first.keys().chain(second.keys()).collect();
    ids.sort();
    ids.dedup();
    let differs = |id: &&&(String, String)| first.get(**id) != second.get(**id);
    let title = |(suite, name): &(String, String)| if suite.is_empty() { name.clone() } else { format!("{suite} {name}") };
    ids.iter().filter(differs).map(|id| title(id)).collect()
}

/// Reads what a run left and judges it.
pub fn read_run(runner: &TestRunner, reporting: &ReportingCommand, output: &RunOutput<'_>) -> TestRun {
    let (stdout, stderr) = (String::from_utf8_lossy(output.stdout), String::from_utf8_lossy(output.stderr));
    let is_file = matches!(reporting.place, ReportPlace::File(_));
    let bytes = if is_file { output.report } else { Some(output.stdout) };
    let is_cut = output.is_cut && !is_file;
    let parsed = match bytes {
        None => Err("the runner left no report".to_owned()),
        Some(bytes) if bytes.len() > REPORT_BYTES_MAX => Err(format!("the report has more than {REPORT_BYTES_MAX} bytes")),
        Some(_) if is_cut && reporting.format != ReportFormat::Text => Err("the output was too long, and its end is missing".to_owned()),
        Some(bytes) => match reporting.format {
            ReportFormat::Text => report::text(&format!("{stdout}\n{stderr}")),
            format => report::parse(format, &String::from_utf8_lossy(bytes), &stderr),
        },
    };
    let mut remarks = Vec::new();
    let (mut tests, declared, verdict) = match parsed {
        Ok(mut parsed) => {
            let verdict = judge(runner.kind, &output.end, &mut parsed, &stderr, &mut remarks);
            (parsed.tests, parsed.counted, verdict)
        }
        Err(why) => (Vec::new(), None, without_report(&output.end, &why, &stdout, &stderr, &mut remarks)),
    };
    let prefix = format!("{}/", output.root.trim_end_matches('/'));
    for test in &mut tests {
        let shorter = |text: &String| text.strip_prefix(&prefix).map(str::to_owned);
        if let Some(file) = test.file.as_ref().and_then(shorter) {
            test.file = Some(file);
        }
        if let Some(suite) = shorter(&test.suite) {
            test.suite = suite;
        }
    }
    let totals = declared.filter(|_| tests.is_empty()).unwrap_or_else(|| TestTotals::of(&tests));
    remarks.truncate(REMARKS_MAX);
    let remarks = remarks.into_iter().map(|remark| head(&remark, MESSAGE_BYTES_MAX).to_owned()).collect();
    TestRun { kind: runner.kind, verdict, remarks, totals, tests }
}

/// The verdict where the report can be read. Remarks are pushed in the order of their weight.
fn judge(kind: RunnerKind, end: &CommandEnd, parsed: &mut ParsedReport, stderr: &str, remarks: &mut Vec<String>) -> RunVerdict {
    let exit = match end {
        CommandEnd::NotStarted(why) => {
            remarks.push(why.clone());
            return RunVerdict::NotStarted;
        }
        CommandEnd::TimedOut => {
            remarks.push("the tests were stopped at their time limit".to_owned());
            return RunVerdict::TimedOut;
        }
        CommandEnd::Signalled(signal) => {
            remarks.push(format!("the tests were ended by signal {signal}"));
            return RunVerdict::Crashed;
        }
        CommandEnd::Exited(exit) => *exit,
    };
    if parsed.tests.len() > TESTS_MAX {
        remarks.push(format!("the report has more than {TESTS_MAX} tests"));
        return RunVerdict::Unreadable;
    }
    let totals = parsed.counted.unwrap_or_else(|| TestTotals::of(&parsed.tests));
    let bad = totals.failed + totals.errored;
    remarks.append(&mut parsed.crashed.clone());
    let crashed = remarks.len();
    remarks.extend(parsed.broken.iter().cloned());
    remarks.append(&mut parsed.doubts);
    if exit == 0 {
        if bad > 0 || !parsed.broken.is_empty() || parsed.is_failed {
            remarks.insert(0, format!("the exit code is 0, but the report has {bad} tests that failed"));
            return RunVerdict::Contradictory;
        }
        if !remarks.is_empty() {
            return RunVerdict::Contradictory;
        }
        if totals.passed == 0 {
            remarks.push(match totals.skipped {
                0 => "the report has no test".to_owned(),
                skipped => format!("all {skipped} tests were skipped"),
            });
            return RunVerdict::NoTests;
        }
        return RunVerdict::Passed;
    }
    if parsed.is_timed_out {
        return RunVerdict::TimedOut;
    }
    if crashed > 0 {
        return RunVerdict::Crashed;
    }
    if !parsed.broken.is_empty() {
        return RunVerdict::CompileError;
    }
    if !remarks.is_empty() {
        return RunVerdict::Contradictory;
    }
    if bad > 0 {
        let expected = kind.failure_exits();
        if expected.is_empty() || expected.contains(&exit) {
            return RunVerdict::Failed;
        }
        remarks.push(format!("the exit code is {exit}, which {} does not use for tests that failed", kind.name()));
        return RunVerdict::Contradictory;
    }
    if let Some(why) = not_started(exit, stderr) {
        remarks.push(why);
        return RunVerdict::NotStarted;
    }
    if (129..=192).contains(&exit) {
        remarks.push(format!("the exit code {exit} is that of a process ended by signal {}", exit - 128));
        return RunVerdict::Crashed;
    }
    if totals.ran() == 0 && is_exit_without_tests(kind, exit) {
        remarks.push("the report has no test".to_owned());
        return RunVerdict::NoTests;
    }
    remarks.push(format!("the exit code is {exit}, but the report has no test that failed"));
    RunVerdict::Contradictory
}

/// Exit codes for no tests at all.
fn is_exit_without_tests(kind: RunnerKind, exit: i32) -> bool {
    match kind {
        RunnerKind::Pytest | RunnerKind::Unittest => exit == 5,
        RunnerKind::Nextest => exit == 4,
        RunnerKind::Jest | RunnerKind::Vitest => exit == 1,
        _ => false,
    }
}

/// The verdict where there is no report.
fn without_report(end: &CommandEnd, why: &str, stdout: &str, stderr: &str, remarks: &mut Vec<String>) -> RunVerdict {
    let exit = match end {
        CommandEnd::NotStarted(reason) => {
            remarks.push(reason.clone());
            return RunVerdict::NotStarted;
        }
        CommandEnd::TimedOut => {
            remarks.push("the tests were stopped at their time limit".to_owned());
            return RunVerdict::TimedOut;
        }
        CommandEnd::Signalled(signal) => {
            remarks.push(format!("the tests were ended by signal {signal}"));
            return RunVerdict::Crashed;
        }
        CommandEnd::Exited(exit) => *exit,
    };
    if let Some(why) = not_started(exit, stderr) {
        remarks.push(why);
        return RunVerdict::NotStarted;
    }
    if (129..=192).contains(&exit) {
        remarks.push(format!("the exit code {exit} is that of a process ended by signal {}", exit - 128));
        return RunVerdict::Crashed;
    }
    // A worker of vitest that is killed takes the report with it.
    let dead = ["Channel closed", "Worker exited unexpectedly", "Worker terminated", "process out of memory"];
    if exit != 0
        && let Some(mark) = dead.into_iter().find(|mark| stderr.contains(mark) || stdout.contains(mark))
    {
        remarks.push(format!("a process of the tests died: {mark}"));
        return RunVerdict::Crashed;
    }
    remarks.push(format!("{why} (exit code {exit})"));
    RunVerdict::Unreadable
}

/// What a shell or an interpreter says when there is nothing to run.
fn not_started(exit: i32, stderr: &str) -> Option<String> {
    const MARKS: [&str; 10] = [
        "No module named pytest",
        "No module named unittest",
        "error: no such command",
        "npm error Missing script",
        "npm ERR! Missing script",
        "could not determine executable to run",
        "*** No rule to make target",
        "error: unrecognized arguments",
        "ERROR: file or directory not found",
        "ERROR: usage: ",
    ];
    if exit == 126 || exit == 127 {
        return Some(format!("the runner could not be started (exit code {exit})"));
    }
    let line = stderr.lines().find(|line| MARKS.iter().any(|mark| line.contains(mark)))?;
    Some(line.trim().to_owned())
}

/// The beginning of a text, cut between characters.
pub(crate) fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests;
