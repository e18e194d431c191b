//! Test-first: how strictly a task is held to it, and how far its work is.
//!
//! The states and the ways between them are seed 003's. **Invariant.** No way is taken without what it is guarded by: the guard is looked at
//! where the step is recorded, so no brain, no plan and no part of the kernel can talk its way around it.

use crate::CoverageEvidence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How strictly tests come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// Tests are written first and seen to fail; then code, until they pass.
    Strict,
    /// Code may come first; what is merged is marked as unverified.
    Explore,
    /// The same; a person must agree to the mode itself.
    Debug,
}

impl Discipline {
    pub const ALL: [Discipline; 3] = [Discipline::Strict, Discipline::Explore, Discipline::Debug];

    pub fn as_str(self) -> &'static str {
        match self {
            Discipline::Strict => "strict",
            Discipline::Explore => "explore",
            Discipline::Debug => "debug",
        }
    }

    pub fn parse(word: &str) -> Option<Discipline> {
        Discipline::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the work on a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowState {
    Idle,
    Planning,
    TestWriting,
    CodeWriting,
    Validating,
    Reviewing,
    Committing,
    Exploring,
    RetroactiveTesting,
}

impl WorkflowState {
    pub const ALL: [WorkflowState; 9] = [
        WorkflowState::Idle,
        WorkflowState::Planning,
        WorkflowState::TestWriting,
        WorkflowState::CodeWriting,
        WorkflowState::Validating,
        WorkflowState::Reviewing,
        WorkflowState::Committing,
        WorkflowState::Exploring,
        WorkflowState::RetroactiveTesting,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            WorkflowState::Idle => "idle",
            WorkflowState::Planning => "planning",
            WorkflowState::TestWriting => "test_writing",
            WorkflowState::CodeWriting => "code_writing",
            WorkflowState::Validating => "validating",
            WorkflowState::Reviewing => "reviewing",
            WorkflowState::Committing => "committing",
            WorkflowState::Exploring => "exploring",
            WorkflowState::RetroactiveTesting => "retroactive_testing",
        }
    }

    /// In these a brain changes files; in the others nothing is written.
    pub fn is_writing(self) -> bool {
        matches!(
            self,
            WorkflowState::TestWriting | WorkflowState::CodeWriting | WorkflowState::Exploring | WorkflowState::RetroactiveTesting
        )
    }
}

impl fmt::Display for WorkflowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a change must be to need no tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExemptionCategory {
    ConfigChange,
    TypeRefactor,
    Documentation,
    AssetUpdate,
}

impl ExemptionCategory {
    pub const ALL: [ExemptionCategory; 4] = [
        ExemptionCategory::ConfigChange,
        ExemptionCategory::TypeRefactor,
        ExemptionCategory::Documentation,
        ExemptionCategory::AssetUpdate,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ExemptionCategory::ConfigChange => "config_change",
            ExemptionCategory::TypeRefactor => "type_refactor",
            ExemptionCategory::Documentation => "documentation",
            ExemptionCategory::AssetUpdate => "asset_update",
        }
    }

    pub fn parse(word: &str) -> Option<ExemptionCategory> {
        ExemptionCategory::ALL.into_iter().find(|category| category.as_str() == word)
    }
}

/// Leave to change these paths without tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exemption {
    pub category: ExemptionCategory,
    pub paths: Vec<String>,
    pub reason: String,
}

/// In which mode and state a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowMark {
    pub mode: Discipline,
    pub state: WorkflowState,
}

/// What a run of the tests was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestPurpose {
    /// How the project was before the task.
    Base,
    /// New tests are to fail.
    Red,
    /// All are to pass.
    Green,
}

impl TestPurpose {
    pub fn as_str(self) -> &'static str {
        match self {
            TestPurpose::Base => "base",
            TestPurpose::Red => "red",
            TestPurpose::Green => "green",
        }
    }
}

/// What a run of the tests came to, as the kernel saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// At least one test ran, and none failed.
    Passed,
    /// At least one test ran and failed.
    Failed,
    /// They could not be built or loaded, so none of them said anything.
    CompileError,
    /// The runner ran and found no test.
    NoTests,
    /// The runner died, or its report does not fit its end.
    Crashed,
    TimedOut,
    /// No runner is trusted, or it could not be started.
    NotRun,
}

impl TestOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            TestOutcome::Passed => "passed",
            TestOutcome::Failed => "failed",
            TestOutcome::CompileError => "compile_error",
            TestOutcome::NoTests => "no_tests",
            TestOutcome::Crashed => "crashed",
            TestOutcome::TimedOut => "timed_out",
            TestOutcome::NotRun => "not_run",
        }
    }
}

/// One run of the tests by the kernel, on exactly these files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestEvidence {
    pub purpose: TestPurpose,
    /// Names the files: what the task began with, and every change of it.
    pub tree: String,
    pub outcome: TestOutcome,
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    /// Tests that failed, the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// What speaks against taking the run for what it says: tests that went, were skipped or say less, and files that the tests wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// What a person should know of it all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Blob with what the runner wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Blob with every test of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// How much of the project they reach, where that is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<CoverageEvidence>,
    /// What the tests took, all runs together that were made for this.
    pub ms: u64,
}

impl TestEvidence {
    /// What it is known by beside these words.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        let coverage = self.coverage.as_ref().and_then(CoverageEvidence::measured).map(|found| found.now.files.as_str());
        [&self.output, &self.report].into_iter().filter_map(|blob| blob.as_deref()).chain(coverage)
    }

    /// New tests failed, or cannot be built yet: nothing that they ask for is there.
    pub fn is_red(&self) -> bool {
        self.purpose == TestPurpose::Red && matches!(self.outcome, TestOutcome::Failed | TestOutcome::CompileError)
    }

    /// All tests pass, and none of them says less than before.
    pub fn is_green(&self) -> bool {
        self.purpose == TestPurpose::Green && self.outcome == TestOutcome::Passed && self.passed > 0 && self.doubts.is_empty()
    }

    /// The tests that there are pass, or there are none.
    pub fn is_harmless(&self) -> bool {
        self.is_green() || (self.purpose == TestPurpose::Green && self.outcome == TestOutcome::NoTests && self.doubts.is_empty())
    }
}

/// How far the work on a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    pub mode: Discipline,
    pub state: WorkflowState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exemption: Option<Exemption>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<TestEvidence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<TestEvidence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub green: Option<TestEvidence>,
    /// Blob that lists what the task had changed when its present phase began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Turns in a row that did not get the work on.
    #[serde(default)]
    pub stalled: u32,
    /// Paths that were put back, over the whole task.
    #[serde(default)]
    pub put_back: u64,
    /// Some of its work was done when tests did not come first.
    #[serde(default)]
    pub unverified: bool,
}

impl Workflow {
    pub fn new(mode: Discipline) -> Workflow {
        Workflow {
            mode,
            state: WorkflowState::Idle,
            exemption: None,
            base: None,
            red: None,
            green: None,
            snapshot: None,
            stalled: 0,
            put_back: 0,
            unverified: mode != Discipline::Strict,
        }
    }

    pub fn mark(&self) -> WorkflowMark {
        WorkflowMark { mode: self.mode, state: self.state }
    }

    /// Do tests come first here? Not in explore and debug, and not for what is exempt.
    pub fn is_test_first(&self) -> bool {
        self.mode == Discipline::Strict && self.exemption.is_none()
    }

    /// Was the work seen to pass, and is over without going in, or without going in whole? Then it can be proposed again as it was seen.
    pub fn was_seen(&self) -> bool {
        let is_red = self.red.as_ref().is_some_and(TestEvidence::is_red);
        let passes = match &self.green {
            Some(green) if self.is_test_first() => is_red && green.is_green(),
            Some(green) => green.is_harmless(),
            None => false,
        };
        self.state == WorkflowState::Idle && self.mode == Discipline::Strict && !self.unverified && self.snapshot.is_some() && passes
    }

    /// What is named by the blobs that it cannot go on without.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        let outputs = [&self.base, &self.red, &self.green].into_iter().flatten().flat_map(TestEvidence::blobs);
        self.snapshot.as_deref().into_iter().chain(outputs)
    }

    /// Why the work cannot go on to `to`, if it cannot: there is no such way, or its guard does not hold.
    pub fn objection_to(&self, to: WorkflowState, is_merging: bool) -> Option<&'static str> {
        use WorkflowState::{CodeWriting, Committing, Exploring, Idle, Planning, RetroactiveTesting, Reviewing, TestWriting, Validating};
        let (tests_first, is_exempt) = (self.is_test_first(), self.exemption.is_some());
        let passes = self.green.as_ref().is_some_and(TestEvidence::is_green);
        let harmless = self.green.as_ref().is_some_and(TestEvidence::is_harmless);
        match (self.state, to) {
            (_, Idle) | (Idle, Planning) => None,
            (Idle, Reviewing) => (!self.was_seen()).then_some(GREEN_GUARD),
            (Planning, TestWriting) if tests_first => None,
            (Planning, Exploring) if !tests_first => None,
            // An exemption was granted.
            (TestWriting, Exploring) if is_exempt => None,
            (TestWriting, CodeWriting) if tests_first => (!self.red.as_ref().is_some_and(TestEvidence::is_red)).then_some(RED_GUARD),
            (CodeWriting, Validating) if tests_first => None,
            (Exploring | RetroactiveTesting, Validating) if !tests_first => None,
            (Validating, Reviewing) if tests_first => (!passes).then_some(GREEN_GUARD),
            (Validating, Reviewing) => (!harmless).then_some(GREEN_GUARD),
            (Validating, CodeWriting) if tests_first => None,
            (Validating, Exploring) if !tests_first => None,
            (Reviewing, Committing) => (!is_merging).then_some(MERGE_GUARD),
            (Reviewing, CodeWriting) if tests_first => None,
            (Reviewing, Exploring | RetroactiveTesting) if !tests_first => None,
            _ => Some("there is no such step in this mode"),
        }
    }
}

/// Why code is not written yet.
pub const RED_GUARD: &str = "Tests must exist, have been run, and at least one must fail (TDD Red phase)";
/// Why nobody is asked yet.
pub const GREEN_GUARD: &str = "All tests must pass before review";
/// Why nothing that was explored is reviewed, or begun.
pub const EXPLORE_LOCK: &str = "Explore mode is locked: coverage fell too far below its baseline, and strict work must bring it back first";
/// Why nothing is committed yet.
pub const MERGE_GUARD: &str = "Merge must be approved before committing";

#[cfg(test)]
mod tests;
