//! Proves that the journal is what was written: every line, every derived column, and the head against its seal.
//!
//! Streams, so memory does not grow with the journal, and only reads, so it works beside a running writer and offline.

mod blobs;
mod checker;
mod examination;
mod walk;

use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::Connection;

use crate::chain::{Genesis, Hash, Head, Tip, hex};
use crate::error::JournalError;
use crate::evidence;
use crate::seal::{self, Seal, Slots};
use crate::slices::{self, SliceOutcome, SliceWork, StoredLine};
use crate::store::{self, Store};
use blobs::{BlobCheck, NamedBlobs};
pub(crate) use checker::Checker;
pub use examination::{Examination, Examined};
pub(crate) use walk::walk;

/// How many findings are kept; the rest are only counted.
const FINDINGS_MAX: usize = 1000;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// A line is not what its successor or the seal says it was.
    ChainBroken,
    /// A record is not there.
    RecordMissing,
    /// A line stands at another place than it names.
    OutOfPlace,
    /// A line is not in the format, or of an unknown version.
    BadLine,
    /// A derived column says something else than its line.
    ColumnLies,
    /// The seal names records that are gone.
    CutTail,
    /// The database is not the one that was sealed.
    SwappedFile,
    SealMissing,
    SealForged,
    BadSnapshot,
    /// The database has tables, indices or triggers that the journal did not make.
    ForeignSchema,
    /// SQLite finds its file damaged.
    FileDamaged,
    /// Rows stand after the record of an orderly stop, which no kernel wrote.
    RowsAfterStop,
    /// Rows stand at places that no journal has.
    ForeignRows,
    /// A blob that a record names, or that there is a key for, is not there.
    BlobMissing,
    /// A blob is not what it was.
    BlobChanged,
    /// An earlier start found something and kept the proof.
    Evidence,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ChainBroken => "chain broken",
            Self::RecordMissing => "record missing",
            Self::OutOfPlace => "record out of place",
            Self::BadLine => "bad line",
            Self::ColumnLies => "column lies",
            Self::CutTail => "cut tail",
            Self::SwappedFile => "swapped file",
            Self::SealMissing => "seal missing",
            Self::SealForged => "seal forged",
            Self::BadSnapshot => "bad snapshot",
            Self::ForeignSchema => "foreign schema",
            Self::FileDamaged => "file damaged",
            Self::RowsAfterStop => "rows after the stop",
            Self::ForeignRows => "foreign rows",
            Self::BlobMissing => "blob missing",
            Self::BlobChanged => "blob changed",
            Self::Evidence => "evidence kept",
        })
    }
}

/// One thing that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub seq: Option<u64>,
    pub what: Flaw,
    pub why: String,
}

/// What the seal says about the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealState {
    /// The seal and the chain agree; the report's `unsealed` counts the records after it.
    Good,
    /// The seal contradicts the chain.
    Broken,
    Missing,
    Forged,
}

/// The outcome of a verification.
#[derive(Debug, Clone)]
pub struct Report {
    pub records: u64,
    pub head: Head,
    /// Records after the sealed head: not yet protected, not wrong.
    pub unsealed: u64,
    pub seal: SealState,
    pub findings: Vec<Finding>,
    /// Findings beyond those listed.
    pub more: u64,
    /// Bytes of lines read.
    pub bytes: u64,
}

impl Report {
    pub fn is_intact(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Which blobs a record of some kind names by its payload: those that it needs, and those that it says are forgotten.
pub type Names = fn(kind: &str, payload: &str) -> (Vec<String>, Vec<String>);

/// For a journal whose records name no blobs.
pub(crate) fn no_names(_: &str, _: &str) -> (Vec<String>, Vec<String>) {
    (Vec::new(), Vec::new())
}

/// Verifies the journal in `home`, read-only. Blobs are looked at by their keys alone.
pub fn verify(home: &Path) -> Result<Report, JournalError> {
    verify_with(home, no_names)
}

/// Verifies the journal in `home` and the blobs that its records name, read-only.
pub fn verify_with(home: &Path, names: Names) -> Result<Report, JournalError> {
    verify_store(home, &Store::at(home), names, &|_| {})
}

pub(crate) fn verify_store(home: &Path, store: &Store, names: Names, at: &dyn Fn(u64)) -> Result<Report, JournalError> {
    // Seal first, records after: a writer at work can only make the head newer than the seal.
    let key = seal::public_key(&home.join("keys"))?;
    let slots = seal::read(home, &key)?;
    let db = store.open_reader()?;
    let genesis = store.genesis(&db)?;
    let mut checker = Checker::new(genesis, None);
    checker.blobs = Some(BlobCheck::open(home, names)?);
    checker.watch_seal(&slots);
    let damage = std::thread::scope(|scope| {
        // SQLite's own check reads the file once more, so it gets the other core.
        let damage = scope.spawn(|| damage(store));
        let checked = check_all(store, &db, &mut checker, names, at);
        let damage = damage.join().unwrap_or_else(|_| Ok(vec!["the check of the file did not end".to_owned()]));
        checked.and(damage)
    })?;
    for why in damage {
        checker.found(None, Flaw::FileDamaged, why);
    }
    for name in store::foreign_schema(&db)? {
        checker.found(None, Flaw::ForeignSchema, format!("`{name}` is not as the journal made it"));
    }
    // A sealed record that cannot be read is a finding already.
    if let Ok(Some(stop)) = evidence::stop_below(&db, &genesis, &slots)
        && checker.tip.count > stop
        // A kernel that has just started has a newer seal by now.
        && matches!((seal::read(home, &key)?, &slots), (Slots::Sealed(now), Slots::Sealed(then)) if now.count == then.count)
    {
        let why = format!("the kernel stopped with record {}, and {} follow", stop - 1, checker.tip.count - stop);
        checker.found(Some(stop), Flaw::RowsAfterStop, why);
    }
    let (state, unsealed) = checker.judge_seal(&slots);
    blobs::finish(&mut checker, blobs::Depth::Contents, &|| true)?;
    for name in evidence::list(home) {
        checker.found(None, Flaw::Evidence, format!("an earlier start kept `evidence/{name}`"));
    }
    Ok(Report {
        records: checker.records,
        head: checker.tip.head(),
        unsealed,
        seal: state,
        findings: checker.findings,
        more: checker.more,
        bytes: checker.bytes,
    })
}

/// Checks every record: in slices on several threads, and what they do not accept one by one.
fn check_all(store: &Store, db: &Connection, checker: &mut Checker, names: Names, at: &dyn Fn(u64)) -> Result<(), JournalError> {
    if let Some(all) = slices::range(db, checker) {
        let make = |line: &StoredLine<'_>| {
            let (kind, payload) = line.parts.as_ref()?;
            NamedBlobs::of(names, kind, payload).map(|named| (line.seq, named))
        };
        let work = SliceWork { store, genesis: checker.genesis, sealed: checker.sealed_seq(), make: &make };
        slices::each(&work, &all, &mut |range, outcome| {
            match outcome {
                SliceOutcome::Accepted(slice) if checker.accept(&range, &slice) => {
                    slice.made.iter().for_each(|(seq, named)| checker.see_blobs(*seq, named));
                }
                SliceOutcome::Accepted(_) | SliceOutcome::Unclean => {
                    walk(db, checker, Some(range.end), &|| true)?;
                }
                // From here on one by one: what is missing may reach into the next slice.
                SliceOutcome::Unwhole => return Ok(ControlFlow::Break(())),
            }
            at(checker.records);
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let (before, steps) = (checker.records, Cell::new(0));
    let go_on = || {
        at(before + steps.replace(steps.get() + 1) * walk::SLICE_RECORDS.unsigned_abs());
        true
    };
    walk(db, checker, None, &go_on).map(drop)
}

fn damage(store: &Store) -> Result<Vec<String>, JournalError> {
    let db = store.open_reader()?;
    let mut statement = db.prepare("PRAGMA quick_check(10)").map_err(JournalError::db("check the file"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0)).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match lines {
        Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
        Err(error) => Ok(vec![error.to_string()]),
    }
}

/// Compares a head with the seal. `sealed_line` is the hash of the line that the seal names, if it is there.
pub(crate) fn judge(slots: &Slots, genesis: &Genesis, tip: &Tip, sealed_line: Option<Hash>) -> (SealState, u64, Option<Finding>) {
    let finding = |seq, what, why: String| Some(Finding { seq, what, why });
    let seal: &Seal = match slots {
        Slots::Sealed(seal) => seal,
        Slots::Missing => {
            return (SealState::Missing, tip.count, finding(None, Flaw::SealMissing, "there is no seal beside the journal".into()));
        }
        Slots::Forged(why) => return (SealState::Forged, tip.count, finding(None, Flaw::SealForged, why.clone())),
    };
    if seal.genesis != hex(&genesis.hash()) {
        let why = format!("the seal is of another journal, with {} records", seal.count);
        return (SealState::Broken, tip.count, finding(None, Flaw::SwappedFile, why));
    }
    if seal.count > tip.count {
        let why = format!("the seal names {} records, the journal has {}", seal.count, tip.count);
        return (SealState::Broken, 0, finding(Some(tip.count), Flaw::CutTail, why));
    }
    let sealed_line = if seal.count == 0 { Some(genesis.hash()) } else { sealed_line };
    if sealed_line.map(|hash| hex(&hash)).as_ref() != Some(&seal.hash) {
        let now = sealed_line.map(|hash| hex(&hash)[..16].to_owned()).unwrap_or_default();
        let why = format!("the line is not the one that was sealed (now {now})");
        return (SealState::Broken, tip.count - seal.count, finding(Some(seal.seq), Flaw::ChainBroken, why));
    }
    (SealState::Good, tip.count - seal.count, None)
}
