//! `journal.forget`: destroys the keys of blobs that a person wants nobody to read any more.
//!
//! **Invariant.** It is on record before the first key goes, so that verification tells what was forgotten from what was lost. A crash
//! between the two leaves a blob that can be forgotten again.

use crate::aside;
use crate::collect::BlobCollector;
use crate::ledger::{blob_fault, fault};
use journal::Filter;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::SystemTime;
use world::event::BlobForgotten;
use world::{BlobNames, Code, Pid, Refusal};
use world::{Fault, FaultKind, Stop};

/// Names in one record; more go into the next.
const NAMES_MAX: usize = 500;
/// Records whose blobs name further blobs: the base of a task, its kept work, what a step left in a workspace, frozen changes, the log of a merge, what a phase left.
const LISTS: [&str; 6] = ["workspace.based", "work.kept", "step.finished", "merge.proposed", "merge.started", "workflow.entered"];

impl BlobCollector {
    /// Forgets these blobs and those that these records name, and gives their names. What unfinished work needs stays, and then nothing
    /// is forgotten at all.
    pub async fn forget(&self, blobs: &[String], records: &[u64], reason: &str, by: &str) -> Result<Vec<String>, Stop> {
        let mut names = BTreeSet::new();
        for name in blobs {
            if !aside(|| self.ledger.journal().blobs().has(name)).map_err(blob_fault)? {
                return Err(Refusal::new(Code::NotFound, format!("there is no blob `{name}`"))
                    .remedy(world::Remedy::List { what: world::Listing::Blobs })
                    .into());
            }
            names.insert(name.clone());
        }
        for seq in records {
            names.extend(self.blobs_of_record(*seq)?);
        }
        for name in &names {
            if let Some(who) = self.ledger.look(|world| world.needs_blob(name)) {
                return Err(Refusal::new(Code::WrongState, format!("{who} needs blob `{name}`")).remedy(world::Remedy::EndWork).into());
            }
        }
        let names: Vec<String> = names.into_iter().collect();
        self.destroy(names.clone(), reason, by, None).await?;
        Ok(names)
    }

    /// Records that these blobs are forgotten, then destroys their keys and files; with `untouched`, only of those that nobody has kept
    /// again since.
    pub(crate) async fn destroy(&self, names: Vec<String>, reason: &str, by: &str, untouched: Option<SystemTime>) -> Result<(), Fault> {
        for part in names.chunks(NAMES_MAX) {
            let (blobs, by, reason) = (part.to_vec(), by.to_owned(), reason.to_owned());
            self.ledger.record(BlobForgotten { pid: Pid::KERNEL, task: None, blobs, by, reason }).await?;
        }
        let journal = self.ledger.journal().clone();
        let destroyed = tokio::task::spawn_blocking(move || journal.blobs().forget(&names, untouched)).await;
        let destroyed = destroyed.map_err(|error| Fault::new(FaultKind::Bug, "blobs were not forgotten", error))?;
        destroyed.map(drop).map_err(blob_fault)
    }

    /// The blobs that a record names, and where it names a list of blobs, those in the list.
    fn blobs_of_record(&self, seq: u64) -> Result<Vec<String>, Stop> {
        let filter = Filter { after_seq: seq.checked_sub(1), before_seq: seq.checked_add(1), limit: Some(1), ..Filter::default() };
        let found = self.ledger.read(&filter)?;
        let record = found.first().ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no record {seq}")))?;
        let mut names = BlobNames::of(&record.kind, record.payload().map_err(fault)?).kept;
        if names.is_empty() {
            return Err(Refusal::new(Code::BadInput, format!("record {seq} (`{}`) names no blob", record.kind))
                .hint("a record itself never changes; only what it names can be forgotten")
                .into());
        }
        if LISTS.contains(&record.kind.as_str()) {
            for name in names.clone() {
                // What was forgotten before named something that nobody knows any more.
                if let Some(bytes) = self.ledger.blob_if_kept(&name)? {
                    named_in(&serde_json::from_slice(&bytes).unwrap_or(Value::Null), &mut names);
                }
            }
        }
        Ok(names)
    }
}

/// The names of blobs in a list. By their keys: a path may look like a name.
pub(crate) fn named_in(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| named_in(item, names)),
        Value::Object(fields) => fields.iter().for_each(|(key, field)| match field {
            Value::String(name) if matches!(key.as_str(), "blob" | "marked") => names.push(name.clone()),
            field => named_in(field, names),
        }),
        _ => {}
    }
}
