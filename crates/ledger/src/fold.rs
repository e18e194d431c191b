//! From the journal to the world: its newest snapshot, and every record after it.

use crate::ledger::fault;
use journal::{Finding, Journal, Snapshot, StoredLine};
use std::ops::ControlFlow;
use world::{Event, Fault, FaultKind, FoldStep, World};

/// As text, which is how events are read too: types that both hold are compiled once.
fn read_world(bytes: &[u8]) -> Result<World, serde_json::Error> {
    let text = std::str::from_utf8(bytes).map_err(<serde_json::Error as serde::de::Error>::custom)?;
    world::json::from_json(text)
}

/// What a line changes and when, or the place of a line that is no event.
fn read_step(line: &StoredLine<'_>) -> Result<(FoldStep, i64), (u64, serde_json::Error)> {
    let step = match &line.parts {
        Some((kind, payload)) => FoldStep::parse(kind, payload),
        // Out of the format: the chain's check tells of it, and what it says still counts.
        None => serde_json::from_str::<Event>(line.text).map(FoldStep::from),
    };
    step.map(|step| (step, line.at_ms)).map_err(|error| (line.seq, error))
}

/// Folds a journal to its present. An unknown kind or version stops here and is never skipped.
pub(crate) fn fold(journal: &Journal, snapshot: Option<Snapshot>) -> Result<(World, Vec<Finding>), Fault> {
    let (mut world, from) = match snapshot {
        Some(snapshot) => match read_world(&snapshot.bytes) {
            Ok(world) => (world, snapshot.seq + 1),
            // Written by another version: the records are the truth, the snapshot only a shortcut.
            Err(_) => (World::default(), 0),
        },
        None => (World::default(), 0),
    };
    let mut failed = None;
    let take = |read: Result<(FoldStep, i64), (u64, serde_json::Error)>| match read {
        Ok((step, at_ms)) => {
            world.fold(step, at_ms);
            ControlFlow::Continue(())
        }
        Err((seq, error)) => {
            let what = format!("record {seq} is not one this version understands");
            failed = Some(Fault::new(FaultKind::Bug, what, error).fix("run the version of skep that wrote it, or a newer one"));
            ControlFlow::Break(())
        }
    };
    let findings = journal.replay(from, read_step, take).map_err(fault)?;
    match failed {
        Some(fault) => Err(fault),
        None => Ok((world, findings)),
    }
}
