//! The tests once more: on the same files, and without the code.
//!
//! A test that was red by the time of day, by chance or by how often it ran passes later without any code. **Invariant.** What leads to a review
//! was seen red without the code and green with it, in runs that follow each other.

use crate::test_run::{SeenRun, TimedDoubts};
use crate::{PhaseWork, TestFirst};
use std::collections::BTreeSet;
use testing::{RunVerdict, TestCaseOutcome, TestRun, unstable_tests};
use workflow::discipline::PathKinds;
use workspace::RoomSnapshot;
use world::{Stop, Workflow};

impl TestFirst<'_> {
    /// What a second run of the same files does differently, and how long it took.
    pub(crate) async fn differs_again(&self, work: &PhaseWork<'_>, files: &RoomSnapshot, seen: &SeenRun) -> Result<TimedDoubts, Stop> {
        let Some(again) = self.see_tests(work, files).await? else { return Ok((Vec::new(), 0)) };
        let odd = unstable_tests(&seen.run, &again.run).into_iter();
        let mut told: Vec<String> =
            odd.map(|test| format!("the test `{test}` did not do the same in two runs of the same files")).collect();
        if again.run.verdict != seen.run.verdict {
            told.push(format!("a second run of the same files {}", again.run.verdict.title()));
        }
        Ok((told, again.ms))
    }

    /// Tests that were red and pass by now without the code: something else made them pass. And how long the run took.
    pub(crate) async fn passes_without_code(
        &self,
        work: &PhaseWork<'_>,
        workflow: &Workflow,
        files: &RoomSnapshot,
    ) -> Result<TimedDoubts, Stop> {
        let trusted = self.gate.policies.in_force(work.task.zone)?;
        let mut tests_alone = files.clone();
        tests_alone.paths.retain(|path, _| trusted.tests.is_test(path));
        let Some(seen) = self.see_tests(work, &tests_alone).await? else { return Ok((Vec::new(), 0)) };
        if seen.run.verdict == RunVerdict::Passed {
            let told = "all tests pass without the code as well by now: something else than the code made them pass".to_owned();
            return Ok((vec![told], seen.ms));
        }
        let was_red = self.seen_before(workflow.red.as_ref());
        let told = was_red.iter().flat_map(|red| passed_since(red, &seen.run));
        let told = told.map(|test| format!("the test `{test}` was red and passes by now without the code: something else made it pass"));
        Ok((told.collect(), seen.ms))
    }
}

/// Tests that failed in the first run and passed in the other.
fn passed_since(red: &TestRun, later: &TestRun) -> Vec<String> {
    let passed: BTreeSet<_> =
        later.tests.iter().filter(|test| test.outcome == TestCaseOutcome::Passed).map(testing::TestResult::id).collect();
    red.tests.iter().filter(|test| test.is_bad() && passed.contains(&test.id())).map(testing::TestResult::title).collect()
}
