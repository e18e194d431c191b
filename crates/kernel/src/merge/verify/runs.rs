//! The test runs that a commit names, held against the journal.
//!
//! A hash names files: what its task began with, and every change. **Invariant.** A run counts only by its own record, before the merge; that it ran
//! on what went in is a check of its own, and where that cannot be shown it is said.

use super::{Checks, Evidence};
use std::collections::{BTreeMap, BTreeSet};
use workspace::{CommitTrailers, MergePlan, RoomSnapshot, SeenTests, State, TestRuns};
use world::event::{MergeStarted, MergeTested, WorkflowEntered};
use world::{CheckOutcome, Event, Fault};

impl Evidence<'_> {
    /// Whether the records of test runs say what the trailer says of them, and what was merged is what they ran on.
    pub(super) fn tests(&self, trailers: &CommitTrailers, task: &str, started: &MergeStarted, checks: &mut Checks) -> Result<(), Fault> {
        let runs = &trailers.tests.0;
        if runs.is_empty() {
            checks.note("tests", CheckOutcome::Unchecked, "the kernel saw no test run for it");
            return Ok(());
        }
        for (outcome, seen) in runs {
            let (is_there, which) = match seen {
                SeenTests::Record(seq) => (self.is_run(trailers, task, outcome, *seq)?, format!("record {seq} is no {outcome} run")),
                SeenTests::Tree(tree) => {
                    let short: String = tree.chars().take(12).collect();
                    (self.is_run_on(trailers, task, outcome, tree)?, format!("no record is a {outcome} run on {short}"))
                }
            };
            if !is_there {
                checks.note("tests", CheckOutcome::Fails, format!("{which} of {task}'s tests before the merge"));
                return Ok(());
            }
        }
        checks.note("tests", CheckOutcome::Holds, format!("the kernel saw {}", in_words(&trailers.tests)));
        let green = runs.iter().rev().find_map(|(outcome, seen)| match seen {
            SeenTests::Tree(tree) if outcome == "green" => Some(tree),
            _ => None,
        });
        let Some(green) = green else { return Ok(()) };
        match self.went_in_as_tested(task, started, trailers.journal.seq, green)? {
            Ok(()) => checks.note("tested", CheckOutcome::Holds, "what went in is exactly what they passed on"),
            Err(why) => checks.note("tested", CheckOutcome::Unchecked, why),
        }
        Ok(())
    }

    /// Is a record such a run of the task's tests?
    fn is_run(&self, trailers: &CommitTrailers, task: &str, outcome: &str, seq: u64) -> Result<bool, Fault> {
        let record = self.record(seq)?.filter(|record| seq < trailers.journal.seq && record.task.as_deref() == Some(task));
        let seen = match record.as_ref().map(ledger::event_of).transpose()? {
            Some(Event::MergeTested(MergeTested { ok, .. })) => Some(if ok { "green" } else { "failed" }),
            Some(Event::TestsRan(ran)) if ran.run.is_red() => Some("red"),
            Some(Event::TestsRan(ran)) if ran.run.is_green() => Some("green"),
            _ => None,
        };
        Ok(seen == Some(outcome))
    }

    /// Is there such a run on these files?
    fn is_run_on(&self, trailers: &CommitTrailers, task: &str, outcome: &str, tree: &str) -> Result<bool, Fault> {
        let ran = self.events_of(task, &["tests.ran"])?;
        Ok(ran.iter().filter(|(seq, _)| *seq < trailers.journal.seq).any(|(_, event)| match event {
            Event::TestsRan(ran) if ran.run.tree == tree => {
                (outcome == "red" && ran.run.is_red()) || (outcome == "green" && ran.run.is_green())
            }
            _ => false,
        }))
    }

    /// Whether the merge put in what the hash names, and nothing else; why that cannot be said, where it cannot.
    fn went_in_as_tested(&self, task: &str, started: &MergeStarted, before: u64, tree: &str) -> Result<Result<(), String>, Fault> {
        if let Some(blind) = self.blind {
            return Ok(Err(blind.to_owned()));
        }
        let plan = match &started.snapshot {
            Some(snapshot) => (self.blob)(snapshot)?,
            None => None,
        };
        let Some(plan) = plan else { return Ok(Err("what the merge put in is not kept any more".to_owned())) };
        let Some(tested) = self.files_of(task, before, tree)? else {
            return Ok(Err("the files that the tests ran on are not kept any more".to_owned()));
        };
        let plan = MergePlan::parse(&plan)?;
        let merged: BTreeMap<&str, &State> = plan.steps.iter().map(|step| (step.path.path.as_str(), &step.after)).collect();
        let tested: BTreeMap<&str, &State> = tested.paths.iter().map(|(path, state)| (path.as_str(), state)).collect();
        let paths: BTreeSet<&str> = merged.keys().chain(tested.keys()).copied().collect();
        let differs = paths.into_iter().find_map(|path| match (merged.get(path), tested.get(path)) {
            (Some(merged), Some(tested)) if is_same(merged, tested) => None,
            (Some(State::Folder), _) => None,
            (Some(_), Some(_)) => Some(format!("`{path}` went in with other changes than those that the tests ran on")),
            (Some(_), None) => Some(format!("`{path}` went in, and was not there when the tests ran")),
            (None, _) => Some(format!("`{path}` was there when the tests ran, and stayed out of the merge")),
        });
        Ok(differs.map_or(Ok(()), Err))
    }

    /// The files that a hash names, as the end of a phase kept them.
    fn files_of(&self, task: &str, before: u64, tree: &str) -> Result<Option<RoomSnapshot>, Fault> {
        let (mut bases, mut kept) = (Vec::new(), Vec::new());
        for (seq, event) in self.events_of(task, &["workspace.based", "workflow.entered"])? {
            match event {
                Event::WorkspaceBased(based) => bases.push(format!("{}:{}", based.head.unwrap_or_default(), based.blob)),
                Event::WorkflowEntered(WorkflowEntered { snapshot: Some(snapshot), .. }) if seq < before => kept.push(snapshot),
                _ => {}
            }
        }
        for snapshot in kept.iter().rev() {
            let Some(bytes) = (self.blob)(snapshot)? else { continue };
            let files = RoomSnapshot::parse(&bytes)?;
            for base in &bases {
                if files.tree(base)? == tree {
                    return Ok(Some(files));
                }
            }
        }
        Ok(None)
    }
}

/// Two states of a path with the same content; whose file it is says nothing of what was tested.
fn is_same(merged: &State, tested: &State) -> bool {
    match (merged, tested) {
        (State::File { blob, .. }, State::File { blob: other, .. }) => blob == other,
        (merged, tested) => merged == tested,
    }
}

/// The runs with the beginnings of their hashes, as the question before the merge told them.
pub(super) fn in_words(runs: &TestRuns) -> String {
    let short = |(outcome, seen): &(String, SeenTests)| match seen {
        SeenTests::Tree(tree) => format!("{outcome}@{}", tree.chars().take(12).collect::<String>()),
        SeenTests::Record(seq) => format!("{outcome}@{seq}"),
    };
    if runs.0.is_empty() { runs.to_string() } else { runs.0.iter().map(short).collect::<Vec<_>>().join(" ") }
}
