//! What a commit of a merge says of itself, from the journal.

use crate::Kernel;
use journal::Filter;
use ledger::event_of;
use workspace::{CommitTrailers, RecordRef, SeenTests, TestRuns, hash};
use world::{Code, CommitWish, Event, Fault, FaultKind, Merge, Refusal, Task};

/// Refuses a message that has trailers which the kernel writes.
pub(super) fn check(wish: &CommitWish) -> Result<(), Refusal> {
    match CommitTrailers::forged_in(&wish.message) {
        None => Ok(()),
        Some(line) => Err(Refusal::new(Code::BadInput, format!("the message has the line `{line}`, which only the kernel writes"))
            .hint("leave it out, or give another message with `-m`")),
    }
}

/// The trailers of a merge that has started.
pub(super) fn of(kernel: &Kernel, task: &Task, merge: &Merge) -> Result<CommitTrailers, Fault> {
    let kinds = ["merge.started", "merge.tested", "tests.ran"].map(str::to_owned).to_vec();
    let records = kernel.ledger.read(&Filter { task: Some(task.id.to_string()), kinds, ..Filter::default() })?;
    let (mut journal, mut tested, mut red, mut green) = (None, Vec::new(), None, None);
    for record in &records {
        match event_of(record)? {
            Event::MergeStarted(started) if started.merge == merge.id => {
                journal = Some(RecordRef { seq: record.seq, hash: hash::sha256(record.line.as_bytes()) });
            }
            Event::MergeTested(ran) if ran.merge == merge.id => {
                tested.push((if ran.ok { "green" } else { "failed" }, SeenTests::Record(record.seq)));
            }
            // What counts is the last red and the last green run before the merge.
            Event::TestsRan(ran) if journal.is_none() && ran.run.is_red() => red = Some(("red", SeenTests::Tree(ran.run.tree))),
            Event::TestsRan(ran) if journal.is_none() && ran.run.is_green() => green = Some(("green", SeenTests::Tree(ran.run.tree))),
            _ => {}
        }
    }
    let runs = red.into_iter().chain(green).chain(tested).map(|(outcome, seen)| (outcome.to_owned(), seen));
    let tests = TestRuns(runs.collect());
    let journal = journal.ok_or_else(|| Fault::new(FaultKind::Bug, "a merge has no record of its start", merge.id))?;
    Ok(CommitTrailers { session: task.id.to_string(), journal, tests })
}
