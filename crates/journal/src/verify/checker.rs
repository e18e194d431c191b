//! Walks records one by one and compares each with what must stand there.

use std::ops::Range;

use rusqlite::types::ValueRef;

use super::blobs::{BlobCheck, NamedBlobs};
use super::{FINDINGS_MAX, Finding, Flaw, SealState, judge};
use crate::canon;
use crate::chain::{Genesis, Hash, Tip, hash_hex, sha256, timestamp};
use crate::layout::{Layout, spells};
use crate::seal::Slots;
use crate::slices::AcceptedSlice;
use crate::store::StoredRow;

/// Walks records in order and compares each with what must stand there.
pub(crate) struct Checker {
    pub genesis: Genesis,
    /// The last line seen.
    pub tip: Tip,
    /// Whether the walk began in the middle, so that the next line's `hash_prev` can't be checked.
    trust_first: bool,
    /// The sealed record and, once passed, its line's hash.
    sealed: Option<(u64, Option<Hash>)>,
    /// Looks after the blobs that records name.
    pub blobs: Option<BlobCheck>,
    pub records: u64,
    pub bytes: u64,
    pub findings: Vec<Finding>,
    pub more: u64,
}

impl Checker {
    /// A checker for the records after `tip`, or from the beginning.
    pub(crate) fn new(genesis: Genesis, tip: Option<Tip>) -> Self {
        let start = Tip { count: 0, hash: genesis.hash() };
        let tip = tip.unwrap_or(start);
        Self { genesis, tip, trust_first: false, sealed: None, blobs: None, records: 0, bytes: 0, findings: Vec::new(), more: 0 }
    }

    /// A checker that begins at `seq` without knowing the line before.
    pub(crate) fn from(genesis: Genesis, seq: u64) -> Self {
        let mut checker = Self::new(genesis, Some(Tip { count: seq, hash: genesis.hash() }));
        checker.trust_first = seq > 0;
        checker
    }

    pub(super) fn watch_seal(&mut self, slots: &Slots) {
        self.watch(slots.sealed().and_then(|seal| seal.count.checked_sub(1)));
    }

    /// Keeps the hash of this record's line when it comes by.
    pub(crate) fn watch(&mut self, sealed: Option<u64>) {
        self.sealed = sealed.map(|seq| (seq, None));
    }

    /// The record that the seal names.
    pub(crate) fn sealed_seq(&self) -> Option<u64> {
        self.sealed.map(|(seq, _)| seq)
    }

    /// The hash of the sealed line, if that was passed.
    pub(crate) fn sealed_line(&self) -> Option<Hash> {
        self.sealed.and_then(|(_, hash)| hash)
    }

    /// Moves on to the end of a slice that was checked by another thread, if its first line is the next and follows on the last one here.
    pub(crate) fn accept<M>(&mut self, range: &Range<u64>, slice: &AcceptedSlice<M>) -> bool {
        let follows = range.start == 0 || self.trust_first || slice.follows == Some(hash_hex(&self.tip.hash));
        if range.start != self.tip.count || !follows {
            return false;
        }
        self.trust_first = false;
        self.tip = slice.tip;
        self.records += range.end - range.start;
        self.bytes += slice.bytes;
        if let (Some((_, hash)), Some(passed)) = (&mut self.sealed, slice.sealed) {
            *hash = Some(passed);
        }
        true
    }

    pub(crate) fn found(&mut self, seq: Option<u64>, what: Flaw, why: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { seq, what, why: why.into() });
        } else {
            self.more += 1;
        }
    }

    /// Checks one record and moves on to it, whatever it was, so that one flaw is reported once. Gives the line's parts, if it has them.
    pub(crate) fn check<'a>(&mut self, stored: &StoredRow<'a>) -> Option<Layout<'a>> {
        self.records += 1;
        let Ok(seq) = u64::try_from(stored.seq) else {
            self.found(None, Flaw::OutOfPlace, format!("a record stands at {}", stored.seq));
            return None;
        };
        if seq != self.tip.count {
            self.found(
                Some(self.tip.count),
                Flaw::RecordMissing,
                format!("records {} to {} are gone", self.tip.count, seq.saturating_sub(1)),
            );
        }
        let Some(line) = stored.line else {
            self.found(Some(seq), Flaw::BadLine, "the line is not text");
            self.tip.count = seq + 1;
            return None;
        };
        self.bytes += line.len() as u64;
        let layout = Layout::parse(line);
        match &layout {
            Ok(layout) => self.compare(seq, layout, stored),
            Err(why) => self.found(Some(seq), Flaw::BadLine, *why),
        }
        self.trust_first = false;
        self.tip = Tip { count: seq + 1, hash: sha256(line.as_bytes()) };
        if let Some((sealed, hash)) = &mut self.sealed
            && *sealed == seq
        {
            *hash = Some(self.tip.hash);
        }
        layout.ok()
    }

    fn compare(&mut self, seq: u64, layout: &Layout<'_>, stored: &StoredRow<'_>) {
        if layout.seq != seq {
            self.found(Some(seq), Flaw::OutOfPlace, format!("the line says it is record {}", layout.seq));
        }
        let expected = hash_hex(&self.tip.hash);
        if layout.hash_prev.map(str::as_bytes) != (seq > 0).then_some(&expected[..]) && !self.trust_first {
            let why = match seq {
                0 => "the first record names a record before it".to_owned(),
                // With its hash, so that another change of the same record is another finding.
                _ => format!("record {} is not the line that this one follows (now {})", seq - 1, short(&expected)),
            };
            self.found(Some(seq), Flaw::ChainBroken, why);
        }
        if layout.event_id.as_bytes() != self.genesis.event_id(seq) {
            self.found(Some(seq), Flaw::BadLine, "the event id does not belong to this journal and place");
        }
        let mut lies = |column: &str, is_true: bool| {
            if !is_true {
                self.found(Some(seq), Flaw::ColumnLies, format!("column {column} is not what the line says"));
            }
        };
        lies("kind", stored.kind.is_some_and(|kind| spells(layout.kind, kind)));
        lies("session", stored.session.is_some_and(|session| spells(layout.session, session)));
        let in_range = |at_ms: &i64| (0..253_402_300_800_000).contains(at_ms);
        lies("at_ms", stored.at_ms.filter(in_range).is_some_and(|at_ms| timestamp(at_ms) == layout.timestamp.as_bytes()));
        let (pid, task) = canon::subject(layout.payload);
        lies(
            "pid",
            match (stored.pid, pid) {
                (ValueRef::Null, None) => true,
                (ValueRef::Integer(stored), Some(pid)) => u64::try_from(stored) == Ok(pid),
                _ => false,
            },
        );
        lies(
            "task",
            match (stored.task, task) {
                (ValueRef::Null, None) => true,
                (ValueRef::Text(stored), Some(task)) => stored == task.as_bytes(),
                _ => false,
            },
        );
        if let Some(named) = self.blobs.as_ref().and_then(|blobs| blobs.named(&canon::unescape(layout.kind), layout.payload)) {
            self.see_blobs(seq, &named);
        }
    }

    /// Looks after the blobs that a record names.
    pub(super) fn see_blobs(&mut self, seq: u64, named: &NamedBlobs) {
        let found = self.blobs.as_mut().map(|blobs| blobs.see(named)).unwrap_or_default();
        found.into_iter().for_each(|why| self.found(Some(seq), Flaw::BlobMissing, why));
    }

    /// Compares the head with the seal; returns the seal's state and how many records it does not cover.
    pub(super) fn judge_seal(&mut self, slots: &Slots) -> (SealState, u64) {
        let line = self.sealed_line();
        let (state, unsealed, finding) = judge(slots, &self.genesis, &self.tip, line);
        if let Some(finding) = finding {
            self.found(finding.seq, finding.what, finding.why);
        }
        (state, unsealed)
    }
}

fn short(hex: &[u8; 64]) -> &str {
    std::str::from_utf8(&hex[..16]).unwrap_or_default()
}
