//! Everything about a project's tests that needs no kernel: which program runs them, what a run proves, which files they are, and whether they
//! became weaker.
//!
//! Pure: no IO, no clock, no process; whoever runs the tests hands in what they printed. **Invariant.** What cannot be read or does not agree
//! with itself is never a pass. *Does not know* where tests run, who may change them, or what follows from a verdict.
//!
//! The way through it: [`detect`] or [`TestRunner::recognise`] finds the runner, [`TestRunner::reporting`] makes the command, and after the run
//! [`read_run`] gives a [`TestRun`]. [`file_role`] says what a path is to the tests. [`inspect_tests`] looks at one file of tests, [`compare_tests`]
//! at what changed between RED and GREEN, and [`compare_runs`] at the two runs. [`read_coverage`] reads which lines tests reach,
//! [`type_only_change`] proves that a change cannot be tested, and [`mutants`] makes faults that tests should notice.
#![forbid(unsafe_code)]

mod coverage;
mod lex;
pub mod limits;
mod mutant;
mod paths;
mod project;
mod report;
mod run;
mod runner;
mod source;
mod type_only;
mod weakening;

pub use coverage::{Coverage, CoverageFormat, FileCoverageChange, LineCoverage, compare_coverage, read_coverage};
pub use lex::SourceLanguage;
pub use mutant::{Mutant, mutants};
pub use paths::{FileRole, file_role, is_build_file, is_test_path};
pub use project::ProjectFiles;
pub use report::{TestCount, count_tests};
pub use run::{
    CommandEnd, FailureReason, RunOutput, RunVerdict, TestCaseOutcome, TestResult, TestRun, TestTotals, read_run, unstable_tests,
};
pub use runner::{ReportFormat, ReportPlace, ReportingCommand, RunnerKind, RunnerScript, TestRunner, detect, runner_scripts};
pub use source::{SourceTest, TestHabit, find_tests};
pub use type_only::{TypeOnly, type_only_change};
pub use weakening::{ChangedFile, FindingKind, TestFinding, compare_runs, compare_tests, inspect_tests, never_red};
