//! Did the tests become weaker between two states of a project? And do they test anything at all?
//!
//! **Invariant.** A change of a file of tests that is more than comments, blanks and added tests always gives a finding: one of a kind that is known,
//! or [`FindingKind::TestChanged`], [`FindingKind::SupportChanged`] or [`FindingKind::FileChanged`].
//! *Does not know* whether a change was wanted: a person decides.

mod compare;
mod examples;
mod hidden;

use crate::paths::{FileRole, file_role};
use crate::run::{RunVerdict, TestCaseOutcome, TestResult, TestRun};
use crate::source::{SourceTest, TestHabit, read_file};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub use compare::compare_tests;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A file of tests is gone.
    FileDeleted,
    /// A test is gone from its file.
    TestDeleted,
    /// A test that ran at RED was not run at GREEN.
    TestNotRun,
    /// A mark that keeps a test from running came.
    TestSkipped,
    /// A mark that lets a test fail came.
    FailureExpected,
    /// A mark came that makes only some tests run.
    TestsNarrowed,
    /// A test makes fewer assertions.
    FewerAssertions,
    /// An assertion became one that always holds.
    ConstantAssertion,
    /// A test returns before its last assertion.
    EarlyReturn,
    /// A recorded snapshot changed.
    SnapshotAccepted,
    /// The settings of a runner changed.
    ConfigChanged,
    /// Data that tests compare with changed.
    FixtureChanged,
    /// A test's code changed in another way.
    TestChanged,
    /// Code beside the tests changed: helpers, tables, imports.
    SupportChanged,
    /// A file of tests changed and cannot be read.
    FileChanged,
    /// A test moved to another file and is the same.
    TestMoved,
    /// A test has no statements.
    EmptyTest,
    /// A test asserts nothing.
    NoAssertion,
    /// All that a test asserts always holds.
    OnlyConstantAssertions,
    /// Two tests have one name, and only the last one runs.
    TestShadowed,
    /// A source asks whether it is being tested.
    SourceKnowsTests,
    /// An example in a source that runners take for a test is not what it was.
    ExampleChanged,
    /// A file that tells how the project is built changed.
    BuildChanged,
    /// People read something else in a file than runs.
    HiddenText,
    /// A test has a habit that can make its result depend on who runs it, or change what it tests.
    Habit,
}

impl FindingKind {
    /// Whether it stops the work until a person agrees. The others are shown.
    pub fn blocks(self) -> bool {
        !matches!(
            self,
            FindingKind::TestMoved
                | FindingKind::Habit
                | FindingKind::NoAssertion
                | FindingKind::SourceKnowsTests
                | FindingKind::ExampleChanged
                | FindingKind::BuildChanged
                | FindingKind::HiddenText
        )
    }
}

/// One finding, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestFinding {
    pub kind: FindingKind,
    pub path: String,
    /// Empty where the finding is about a file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub test: String,
    /// One sentence.
    pub sentence: String,
    pub blocks: bool,
}

impl TestFinding {
    fn new(kind: FindingKind, path: &str, test: &str, sentence: String) -> TestFinding {
        TestFinding { kind, path: path.to_owned(), test: test.to_owned(), sentence, blocks: kind.blocks() }
    }
}

/// A file in two states. `None`: it is not there.
#[derive(Clone, Copy, Debug)]
pub struct ChangedFile<'a> {
    pub path: &'a str,
    pub before: Option<&'a [u8]>,
    pub after: Option<&'a [u8]>,
}

/// What a file's tests lack: statements, assertions, or a result that depends on them alone.
pub fn inspect_tests(path: &str, text: &str) -> Vec<TestFinding> {
    let mut findings = Vec::new();
    let file = read_file(path, text);
    if let Some(why) = hidden::hidden_text(path, text) {
        findings.push(TestFinding::new(FindingKind::HiddenText, path, "", why));
    }
    for test in &file.tests {
        inspect_one(path, test, &mut findings);
    }
    let is_python = crate::lex::SourceLanguage::of(path) == Some(crate::lex::SourceLanguage::Python);
    for (at, test) in file.tests.iter().enumerate() {
        if is_python && file.tests[at + 1..].iter().any(|later| later.name == test.name) {
            let sentence = format!("`{}` is defined twice, and only the last one runs", test.name);
            findings.push(TestFinding::new(FindingKind::TestShadowed, path, &test.name, sentence));
        }
    }
    if !file.is_whole && file_role(path) == FileRole::Test {
        let sentence = "the file ends within a comment or a text, or is too large, so its tests cannot be told".to_owned();
        findings.push(TestFinding::new(FindingKind::FileChanged, path, "", sentence));
    }
    findings
}

fn inspect_one(path: &str, test: &SourceTest, findings: &mut Vec<TestFinding>) {
    let mut push = |kind, sentence: String| findings.push(TestFinding::new(kind, path, &test.name, sentence));
    let name = &test.name;
    if test.marks.iter().any(|mark| mark == ".todo" || mark == "{todo}") && test.is_empty {
        return;
    }
    if test.is_empty {
        push(FindingKind::EmptyTest, format!("the test `{name}` has no statements, so it cannot fail"));
    } else if test.assertions == 0 {
        push(
            FindingKind::NoAssertion,
            format!("the test `{name}` asserts nothing that could be found; it fails only if the code it calls breaks"),
        );
    } else if test.assertions == test.constant_assertions {
        push(FindingKind::OnlyConstantAssertions, format!("everything that the test `{name}` asserts always holds"));
    }
    if test.returns_early {
        push(FindingKind::EarlyReturn, format!("the test `{name}` returns before its last assertion"));
    }
    for habit in &test.habits {
        let what = match habit {
            TestHabit::ReadsClock => "reads the clock, so its result can change with the time",
            TestHabit::ReadsEnvironment => "reads the environment, so its result can depend on who runs it",
            TestHabit::WritesFiles => "writes or removes files; check that they are not the project's own",
            TestHabit::StartsProcesses => "starts processes",
            TestHabit::EndsProcess => "ends the process, which can hide the tests behind it",
            TestHabit::CatchesEverything => "catches every error, its own failed assertions too",
        };
        push(FindingKind::Habit, format!("the test `{name}` {what}"));
    }
}

/// Tests that came since `base` and passed at RED: they never were red, so nothing shows that they can fail.
pub fn never_red(base: &TestRun, red: &TestRun) -> Vec<String> {
    let known: BTreeSet<(&str, &str)> = base.tests.iter().map(TestResult::id).collect();
    let is_new = |test: &&TestResult| test.outcome == TestCaseOutcome::Passed && !known.contains(&test.id());
    red.tests.iter().filter(is_new).map(TestResult::title).collect()
}

/// Tests that ran at RED and did not run, or were skipped, at GREEN.
pub fn compare_runs(red: &TestRun, green: &TestRun) -> Vec<TestFinding> {
    // A file that could not be loaded stands for its tests, and is none of them.
    let is_loaded = |test: &TestResult| red.verdict != RunVerdict::CompileError || !test.is_bad();
    let tried = |test: &&TestResult| test.outcome != TestCaseOutcome::Skipped && is_loaded(test);
    let at_green: BTreeMap<(&str, &str), TestCaseOutcome> = green.tests.iter().map(|test| (test.id(), test.outcome)).collect();
    let mut findings = Vec::new();
    for test in red.tests.iter().filter(tried) {
        let path = test.file.as_deref().unwrap_or_default();
        let title = test.title();
        match at_green.get(&test.id()) {
            None => findings.push(TestFinding::new(
                FindingKind::TestNotRun,
                path,
                &title,
                format!("the test `{title}` ran at RED and not at GREEN"),
            )),
            Some(TestCaseOutcome::Skipped) => {
                findings.push(TestFinding::new(
                    FindingKind::TestSkipped,
                    path,
                    &title,
                    format!("the test `{title}` ran at RED and was skipped at GREEN"),
                ));
            }
            Some(_) => {}
        }
    }
    // Runs that only count can lose tests as well.
    if (red.tests.is_empty() || green.tests.is_empty()) && green.totals.ran() < red.totals.ran() {
        let (before, after) = (red.totals.ran(), green.totals.ran());
        findings.push(TestFinding::new(FindingKind::TestNotRun, "", "", format!("{before} tests ran at RED and only {after} at GREEN")));
    }
    findings
}

#[cfg(test)]
mod tests;
