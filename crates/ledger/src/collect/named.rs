//! The blobs that records name, by task: read off the journal in one pass.

use crate::ledger::fault;
use crate::{Ledger, aside, event_of};
use journal::{Filter, Record};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use world::{BlobNames, Event, Fault, MergeId, TaskId};

/// Records of a task that name blobs.
const OF_TASKS: [&str; 15] = [
    "task.queued",
    "artifact.kept",
    "workspace.based",
    "work.kept",
    "brain.remembered",
    "brain.talked",
    "brain.transcribed",
    "call.finished",
    "merge.proposed",
    "merge.started",
    "merge.tested",
    "planner.requested",
    "plan.received",
    "plan.accepted",
    "context.summarized",
];
/// Records of policies, which name one each.
const OF_POLICIES: [&str; 2] = ["policy.updated", "policy.home_updated"];

/// All that records name.
#[derive(Debug, Default)]
pub(super) struct NamedByRecords {
    pub policies: HashSet<String>,
    /// In the order of the records.
    pub tasks: BTreeMap<TaskId, Vec<NamedByRecord>>,
}

/// What one record of a task names, and as what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedByRecord {
    pub role: BlobRole,
    pub blobs: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlobRole {
    /// It is needed as long as its task is.
    Plain,
    /// What a brain wrote or drew.
    Transcript,
    /// A list of the contents that were kept at a task's end.
    Kept,
    /// A list of contents: of a base, or of a merge that began.
    List,
    /// A list of the contents of a proposal.
    Proposal(MergeId),
}

impl NamedByRecords {
    /// Looks at every record: what is destroyed because no record names it must not hang on an index.
    pub(super) fn read(ledger: &Ledger) -> Result<NamedByRecords, Fault> {
        let kinds = OF_TASKS.iter().chain(&OF_POLICIES).map(|kind| (*kind).to_owned()).collect();
        let (mut named, mut failed) = (NamedByRecords::default(), None);
        let filter = Filter { kinds, scans: true, ..Filter::default() };
        let add = |record: Record| match named.add(&record) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => {
                failed = Some(fault);
                ControlFlow::Break(())
            }
        };
        aside(|| ledger.journal().visit(&filter, add)).map_err(fault)?;
        failed.map_or(Ok(named), Err)
    }

    fn add(&mut self, record: &Record) -> Result<(), Fault> {
        let blobs = BlobNames::of(&record.kind, record.payload().map_err(fault)?).kept;
        if blobs.is_empty() {
            return Ok(());
        }
        if OF_POLICIES.contains(&record.kind.as_str()) {
            self.policies.extend(blobs);
            return Ok(());
        }
        let Some(task) = record.task.as_ref().and_then(|task| task.parse().ok()) else { return Ok(()) };
        let role = match record.kind.as_str() {
            "brain.transcribed" | "brain.talked" => BlobRole::Transcript,
            "work.kept" => BlobRole::Kept,
            "workspace.based" | "merge.started" | "workflow.entered" => BlobRole::List,
            "merge.proposed" => match event_of(record)? {
                Event::MergeProposed(proposed) => BlobRole::Proposal(proposed.merge),
                _ => BlobRole::List,
            },
            _ => BlobRole::Plain,
        };
        self.tasks.entry(task).or_default().push(NamedByRecord { role, blobs });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: &str, task: Option<&str>, payload: &str) -> Record {
        let line = format!(
            r#"{{"event_id":"00000000-0000-8000-8000-000000000000","timestamp":"2026-11-06T21:20:00.123Z","session_id":"s-1","type":"{kind}","payload":{payload},"seq":0,"v":1}}"#
        );
        Record { seq: 0, kind: kind.into(), at_ms: 0, session: "s-1".into(), pid: None, task: task.map(str::to_owned), line }
    }

    #[test]
    fn one_pass_tells_tasks_and_roles_apart() {
        let records = [
            record("policy.updated", None, r#"{"pid":1,"zone":"zone-1","blob":"p","version":1,"by":"o"}"#),
            record(
                "call.finished",
                Some("task-2"),
                r#"{"pid":3,"task":"task-2","call":"call-1","ok":true,"output":{},"blob":"out","blob_bytes":1,"ms":1}"#,
            ),
            record("work.kept", Some("task-1"), r#"{"pid":3,"task":"task-1","blob":"old","files":1,"bytes":1}"#),
            record(
                "call.finished",
                Some("task-1"),
                r#"{"pid":3,"task":"task-1","call":"call-2","ok":true,"output":{},"blob":null,"blob_bytes":0,"ms":1}"#,
            ),
            record("brain.transcribed", Some("task-1"), r#"{"pid":3,"task":"task-1","blob":"said","lines":1,"bytes":1}"#),
            record(
                "merge.proposed",
                Some("task-1"),
                r#"{"pid":3,"task":"task-1","merge":"m-4","digest":"d","frozen":"f","paths":[],"summary":"s"}"#,
            ),
            record("workspace.based", Some("task-1"), r#"{"pid":3,"task":"task-1","head":null,"blob":"base","until_us":1}"#),
            record("call.finished", None, r#"{"pid":3,"call":"call-3","ok":true,"output":{},"blob":"lone","blob_bytes":1,"ms":1}"#),
        ];
        let mut named = NamedByRecords::default();
        records.iter().for_each(|record| named.add(record).unwrap());
        assert_eq!(named.policies.iter().collect::<Vec<_>>(), ["p"]);
        let roles = |task: u64| -> Vec<(BlobRole, &str)> {
            named.tasks[&TaskId(task)].iter().map(|named| (named.role, named.blobs[0].as_str())).collect()
        };
        let first =
            [(BlobRole::Kept, "old"), (BlobRole::Transcript, "said"), (BlobRole::Proposal(MergeId(4)), "f"), (BlobRole::List, "base")];
        assert_eq!(roles(1), first);
        assert_eq!(roles(2), [(BlobRole::Plain, "out")]);
        assert_eq!(named.tasks.len(), 2);
    }
}
