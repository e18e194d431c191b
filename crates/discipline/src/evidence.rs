//! What the kernel saw, as whoever decides on a merge must see it; and tests that say less than they did.

use crate::coverage::coverage_reasons;
use crate::phase::seen;
use crate::test_run::{RoomFiles, RunFindings, SeenRun, TimedDoubts, passed_anew};
use crate::told::{some_of, summed};
use crate::{PhaseWork, TestFirst};
use std::ops::RangeInclusive;
use testing::{ChangedFile, FileRole, TestFinding, compare_runs, compare_tests, file_role, inspect_tests, mutants, runner_scripts};
use workflow::discipline::PathKinds;
use workspace::{FileState, FileTree, RoomSnapshot, State, aside};
use world::{Discipline, Fault, Stop, TestEvidence, TestOutcome, Workflow, WorkflowState};

/// A run that is shorter than this is made again, to find tests that do not do the same each time.
const TWICE_MS: u64 = 15_000;
/// Faults that are made in the changed lines of a task.
const MUTANTS_MAX: usize = 8;
/// What a person is told of a run. Each kind of finding is bounded by itself, so what matters is among them.
const TOLD_MAX: usize = 40;

/// A file in two states, as bytes.
type TwoStates = (String, Option<Vec<u8>>, Option<Vec<u8>>);

impl TestFirst<'_> {
    /// Every path that differs between two snapshots, with what it held in each.
    fn two_states(&self, work: &PhaseWork<'_>, before: &RoomSnapshot, after: &RoomSnapshot) -> Result<Vec<TwoStates>, Stop> {
        let project = FileTree::at(work.opened.project.clone())?;
        let bytes = |files: &RoomSnapshot, path: &str| -> Result<Option<Vec<u8>>, Fault> {
            match files.paths.get(path) {
                Some(State::File { blob, .. }) => self.ledger.blob(blob).map(Some),
                Some(State::Absent | State::Folder | State::Link { .. }) => Ok(None),
                None => match aside(|| project.now(path))? {
                    FileState::File { bytes, .. } => Ok(Some(bytes)),
                    _ => Ok(None),
                },
            }
        };
        let states = after.changed_since(before).into_iter().map(|path| Ok((path.clone(), bytes(before, &path)?, bytes(after, &path)?)));
        states.collect()
    }

    /// What the new tests lack, and what became of the old ones: shown to whoever decides on the merge.
    pub(crate) fn look_at_tests(&self, work: &PhaseWork<'_>, files: &RoomSnapshot, run: Option<&SeenRun>) -> Result<RunFindings, Stop> {
        let nothing = RoomSnapshot::default();
        let mut findings = RunFindings::default();
        findings.remarks.extend(some_of(self.runs_instead(work, &nothing, files, true)?));
        findings.remarks.extend(some_of(self.changed_scripts(work, &nothing, files)?));
        let states = self.two_states(work, &nothing, files)?;
        let mut found = compared(&states);
        for (path, _, after) in &states {
            let text = after.as_deref().map(String::from_utf8_lossy);
            found.extend(text.iter().flat_map(|text| inspect_tests(path, text)));
        }
        findings.remarks.extend(summed(found));
        // A person called these tests; by their names nobody knows what they say.
        let tests = &self.gate.policies.in_force(work.task.zone)?.tests;
        let is_unread = |(path, before, _): &&TwoStates| before.is_some() && tests.is_test(path) && file_role(path) == FileRole::Source;
        let unread =
            states.iter().filter(is_unread).map(|(path, ..)| format!("{path}: a test changed or went, and what it says is not known"));
        findings.remarks.extend(some_of(unread.collect()));
        let workflow = self.ledger.task(work.task.id)?.workflow;
        if let Some(SeenRun { run, .. }) = run {
            let base = self.seen_before(workflow.as_deref().and_then(|workflow| workflow.base.as_ref()));
            let lost = base.iter().flat_map(|base| compare_runs(base, run)).map(|found| match found.test.as_str() {
                "" => "fewer tests ran than before the task".to_owned(),
                test => format!("the test `{test}` ran before the task and does not any more"),
            });
            findings.remarks.extend(some_of(lost.collect()));
            let never_red = passed_anew(run, base.as_ref()).map(|test| format!("the new test `{}` was never red", test.title()));
            findings.remarks.extend(some_of(never_red.collect()));
            if !run.tests.is_empty() && run.failed_assertions().next().is_none() {
                findings.remarks.push("no test was red by an assertion of its own".to_owned());
            }
        }
        Ok(findings)
    }

    /// What speaks against taking a run for what it says: tests and settings of runners that are not what they were when the tests failed.
    pub(crate) async fn look_again(
        &self,
        work: &PhaseWork<'_>,
        workflow: &Workflow,
        files: &RoomSnapshot,
        run: Option<&SeenRun>,
    ) -> Result<RunFindings, Stop> {
        let before = if workflow.is_test_first() { self.phase_start(workflow)? } else { RoomSnapshot::default() };
        let mut findings = RunFindings::default();
        let (blocking, shown): (Vec<TestFinding>, Vec<TestFinding>) =
            compared(&self.two_states(work, &before, files)?).into_iter().partition(|found| found.blocks);
        // What is explored or exempt is read by a person anyway.
        if workflow.is_test_first() { &mut findings.doubts } else { &mut findings.remarks }.extend(summed(blocking));
        findings.remarks.extend(some_of(self.changed_scripts(work, &before, files)?));
        findings.remarks.extend(summed(shown));
        if files.has_unknown_ignores {
            let told = "git cannot say in this sandbox what it ignores, so what was built or installed may be among the changes".to_owned();
            if workflow.is_test_first() { &mut findings.doubts } else { &mut findings.remarks }.push(told);
        }
        findings.doubts.extend(files.hidden.iter().map(|path| format!("{path}: git ignores it now, so no merge would take it")));
        let instead = self.runs_instead(work, &before, files, false)?;
        if workflow.is_test_first() {
            findings.doubts.extend(instead)
        } else {
            findings.remarks.extend(some_of(instead))
        }
        let Some(seen) = run else { return Ok(findings) };
        if let Some(red) = self.seen_before(workflow.red.as_ref()) {
            let lost = compare_runs(&red, &seen.run).into_iter().filter(|found| found.blocks);
            findings.doubts.extend(lost.map(|found| found.sentence));
        }
        if seen.run.verdict != testing::RunVerdict::Passed {
            return Ok(findings);
        }
        if is_run_again(seen.ms, workflow.base.as_ref()) {
            findings.doubt(self.differs_again(work, files, seen).await?);
            if workflow.is_test_first() {
                findings.doubt(self.passes_without_code(work, workflow, files).await?);
            }
        } else {
            findings
                .remarks
                .push("the tests take so long that they were run once: one that does not do the same each time is not found".to_owned());
        }
        if findings.doubts.is_empty() && workflow.is_test_first() {
            findings.doubt(self.survivors(work, &before, files).await?);
        }
        Ok(findings)
    }

    /// Changed files that the test command names, or that have the name of a program or module that it runs: the runner may be another.
    ///
    /// While code is written tests are put back anyway; while tests are written it may be one of them that runs the others.
    fn runs_instead(&self, work: &PhaseWork<'_>, before: &RoomSnapshot, files: &RoomSnapshot, tests: bool) -> Result<Vec<String>, Stop> {
        let trusted = self.gate.policies.in_force(work.task.zone)?;
        let named: Vec<&str> = commands(&trusted.config.test)
            .flatten()
            .flat_map(|word| [word.trim_start_matches("./"), stem(word)])
            .filter(|word| !word.is_empty())
            .collect();
        let is_named = |path: &&String| {
            let first = path.split('/').next().unwrap_or(path);
            match trusted.tests.is_test(path) {
                true => tests && named.contains(&path.as_str()),
                false => named.contains(&path.as_str()) || named.contains(&stem(first)),
            }
        };
        let changed = files.changed_since(before);
        Ok(changed.iter().filter(is_named).map(|path| format!("{path}: the test command runs what has this name")).collect())
    }

    /// Changed files that a script of the test command names: it may test something else now. Sources have such names too, so they are shown.
    fn changed_scripts(&self, work: &PhaseWork<'_>, before: &RoomSnapshot, files: &RoomSnapshot) -> Result<Vec<String>, Stop> {
        let trusted = self.gate.policies.in_force(work.task.zone)?;
        let project = RoomFiles(FileTree::at(work.opened.project.clone())?);
        let scripts: Vec<_> = commands(&trusted.config.test).flat_map(|command| runner_scripts(command, &project)).collect();
        let by = |path: &String| scripts.iter().find(|script| script.names(path)).map(|script| script.path.clone());
        let told = |path: &String| by(path).map(|by| format!("{path}: `{by}`, which the test command runs, names it"));
        Ok(files.changed_since(before).iter().filter_map(told).collect())
    }

    /// Faults in the changed lines that no test notices, where the project wants them looked for; and how long the tests took for that.
    async fn survivors(&self, work: &PhaseWork<'_>, before: &RoomSnapshot, files: &RoomSnapshot) -> Result<TimedDoubts, Stop> {
        let trusted = self.gate.policies.in_force(work.task.zone)?;
        if !trusted.config.strict.mutate {
            return Ok((Vec::new(), 0));
        }
        let (mut unnoticed, mut ms) = (Vec::new(), 0);
        let mut left = MUTANTS_MAX;
        for (path, was, is) in self.two_states(work, before, files)? {
            let (Some(is), false) = (is.and_then(|is| String::from_utf8(is).ok()), trusted.tests.is_test(&path)) else { continue };
            let was = was.and_then(|was| String::from_utf8(was).ok()).unwrap_or_default();
            for mutant in mutants(&path, &is, &[changed_lines(&was, &is)], left) {
                left = left.saturating_sub(1);
                let mut changed = files.clone();
                let blob = self.ledger.keep(mutant.text.as_bytes())?;
                changed.paths.insert(path.clone(), State::File { blob, mode: None, owner: None });
                let Some(run) = self.see_tests(work, &changed).await? else { continue };
                ms += run.ms;
                if run.run.verdict == testing::RunVerdict::Passed {
                    unnoticed.push(format!("no test notices it if in {path}:{} {}", mutant.line, mutant.description));
                }
            }
        }
        Ok((unnoticed, ms))
    }
}

/// What is run to see the tests, and to measure what they reach.
fn commands(test: &gate::TestConfig) -> impl Iterator<Item = &Vec<String>> {
    test.command.iter().chain(test.coverage.iter().filter_map(|coverage| coverage.command.as_ref()))
}

/// Whether tests are run again: where they are short, or were before the task made them long.
fn is_run_again(ms: u64, base: Option<&TestEvidence>) -> bool {
    ms < TWICE_MS || base.is_some_and(|base| base.ms < TWICE_MS)
}

fn compared(states: &[TwoStates]) -> Vec<TestFinding> {
    let changes: Vec<ChangedFile<'_>> =
        states.iter().map(|(path, before, after)| ChangedFile { path, before: before.as_deref(), after: after.as_deref() }).collect();
    compare_tests(&changes)
}

/// A name without its folders and its ending.
fn stem(word: &str) -> &str {
    let name = word.trim_end_matches('/').rsplit('/').next().unwrap_or(word);
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// From the first line that differs to the last.
fn changed_lines(was: &str, is: &str) -> RangeInclusive<u32> {
    let (was, is): (Vec<&str>, Vec<&str>) = (was.lines().collect(), is.lines().collect());
    let first = was.iter().zip(&is).take_while(|(was, is)| was == is).count();
    let last = was.iter().rev().zip(is.iter().rev()).take_while(|(was, is)| was == is).count();
    let last = is.len().saturating_sub(last.min(is.len().saturating_sub(first)));
    let number = |line: usize| u32::try_from(line).unwrap_or(u32::MAX);
    number(first + 1)..=number(last.max(first + 1))
}

/// What whoever decides on a task's merge is told of test-first.
pub fn merge_reasons(workflow: &Workflow) -> Vec<String> {
    let mut reasons = Vec::new();
    match (workflow.mode, &workflow.exemption) {
        (_, Some(exemption)) => {
            let what =
                format!("exempt from tests as {}: {} ({})", exemption.category.as_str(), exemption.paths.join(", "), exemption.reason);
            reasons.push(what);
        }
        (Discipline::Strict, None) if !workflow.unverified => {}
        (Discipline::Strict, None) => reasons.push("UNVERIFIED: part of it was made before its mode was strict".to_owned()),
        (mode, None) => reasons.push(format!("UNVERIFIED: it was made in {mode} mode, where tests need not come first")),
    }
    if let Some(red) = &workflow.red {
        reasons.push(format!("red: {}", seen(red)));
        if red.outcome == TestOutcome::CompileError {
            reasons.push("the new tests were never red by a failed assertion: they did not compile before the code was there".to_owned());
        }
        reasons.extend(red.doubts.iter().chain(&red.remarks).take(TOLD_MAX).map(|told| format!("when it was red: {told}")));
    }
    if let Some(green) = &workflow.green {
        reasons.push(format!("green: {}", seen(green)));
        reasons.extend(green.coverage.iter().flat_map(coverage_reasons));
        reasons.extend(green.remarks.iter().take(TOLD_MAX).cloned());
    }
    if workflow.mode == Discipline::Strict && !matches!(workflow.state, WorkflowState::Reviewing | WorkflowState::Committing) {
        reasons.push(format!("its work stopped in {} before its tests were seen to pass: only tests of it can go in", workflow.state));
    }
    if workflow.put_back > 0 {
        reasons.push(format!("{} paths were put back that its phases did not allow", workflow.put_back));
    }
    reasons
}

/// Why a merge that rules let pass unread wants a person all the same.
pub fn unread_doubts(workflow: &Workflow) -> Vec<String> {
    let mut doubts = Vec::new();
    if workflow.unverified {
        doubts.push("tests did not come first in it, so a person looks at it".to_owned());
    }
    let runs = [&workflow.red, &workflow.green];
    if runs.into_iter().flatten().any(|run| !run.remarks.is_empty()) {
        doubts.push("there is something to be said of its tests, so a person looks at it".to_owned());
    }
    if workflow.put_back > 0 {
        doubts.push("its phases wrote what they did not allow, so a person looks at it".to_owned());
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_does_not_make_its_tests_too_long_to_be_run_again() {
        let base = |ms| TestEvidence {
            purpose: world::TestPurpose::Base,
            tree: String::new(),
            outcome: TestOutcome::Passed,
            passed: 1,
            failed: 0,
            skipped: 0,
            failing: Vec::new(),
            doubts: Vec::new(),
            remarks: Vec::new(),
            output: None,
            report: None,
            coverage: None,
            ms,
        };
        assert!(is_run_again(TWICE_MS - 1, None) && is_run_again(TWICE_MS - 1, Some(&base(TWICE_MS))));
        assert!(is_run_again(TWICE_MS, Some(&base(1))), "it was short before");
        assert!(!is_run_again(TWICE_MS, Some(&base(TWICE_MS))) && !is_run_again(TWICE_MS, None));
    }

    #[test]
    fn what_was_made_before_the_mode_was_strict_is_unverified() {
        let of = |mode, unverified| merge_reasons(&Workflow { unverified, state: WorkflowState::Reviewing, ..Workflow::new(mode) });
        assert_eq!(of(Discipline::Strict, false), Vec::<String>::new());
        assert_eq!(of(Discipline::Strict, true), ["UNVERIFIED: part of it was made before its mode was strict"]);
        assert_eq!(of(Discipline::Explore, true), ["UNVERIFIED: it was made in explore mode, where tests need not come first"]);
    }

    #[test]
    fn the_changed_lines_are_those_between_the_first_and_the_last_that_differ() {
        assert_eq!(changed_lines("a\nb\nc\n", "a\nX\nc\n"), 2..=2);
        assert_eq!(changed_lines("", "a\nb\n"), 1..=2);
        assert_eq!(changed_lines("a\nb\n", "a\nb\nc\n"), 3..=3);
        assert_eq!(changed_lines("a\n", "a\n"), 2..=2);
    }
}
