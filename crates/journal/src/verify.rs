//! Proves that the journal is what was written: every line, every derived column, and the head against its seal.
//!
//! Streams, so memory does not grow with the journal, and only reads, so it works beside a running writer and offline.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::chain::{Genesis, Hash, Head, Tip, hash_hex, hex, sha256, timestamp};
use crate::error::JournalError;
use crate::layout::{Layout, spells};
use crate::seal::{self, Seal, Slots};
use crate::store::{self, Store, Stored};
use crate::{canon, files};

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

/// Verifies the journal in `home`, read-only.
pub fn verify(home: &Path) -> Result<Report, JournalError> {
    verify_store(home, &Store::at(home))
}

pub(crate) fn verify_store(home: &Path, store: &Store) -> Result<Report, JournalError> {
    // Seal first, records after: a writer at work can only make the head newer than the seal.
    let key = seal::public_key(&home.join("keys"))?;
    let slots = seal::read(home, &key)?;
    let db = store.open_reader()?;
    let genesis = store.genesis(&db)?;
    let mut checker = Checker::new(genesis, None);
    checker.watch_seal(&slots);
    let damage = std::thread::scope(|scope| {
        // SQLite's own check reads the file once more, so it gets the other core.
        let damage = scope.spawn(|| damage(store));
        let checked = checker.run(&db, 0);
        let damage = damage.join().unwrap_or_else(|_| Ok(vec!["the check of the file did not end".to_owned()]));
        checked.and(damage)
    })?;
    for why in damage {
        checker.found(None, Flaw::FileDamaged, why);
    }
    for name in store::foreign_schema(&db)? {
        checker.found(None, Flaw::ForeignSchema, format!("`{name}` is not as the journal made it"));
    }
    for name in evidence(home) {
        checker.found(None, Flaw::Evidence, format!("an earlier start kept `evidence/{name}`"));
    }
    let (state, unsealed) = checker.judge_seal(&slots);
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

fn damage(store: &Store) -> Result<Vec<String>, JournalError> {
    let db = store.open_reader()?;
    let mut statement = db.prepare("PRAGMA quick_check(10)").map_err(JournalError::db("check the file"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0)).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match lines {
        Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
        Err(error) => Ok(vec![error.to_string()]),
    }
}

/// Walks records in order and compares each with what must stand there.
pub(crate) struct Checker {
    genesis: Genesis,
    /// The last line seen.
    tip: Tip,
    /// Whether the walk began in the middle, so that the next line's `hash_prev` can't be checked.
    trust_first: bool,
    /// The sealed record and, once passed, its line's hash.
    sealed: Option<(u64, Option<Hash>)>,
    pub records: u64,
    pub bytes: u64,
    pub findings: Vec<Finding>,
    pub more: u64,
}

impl Checker {
    /// A checker for the records after `tip`, or from the beginning.
    pub(crate) fn new(genesis: Genesis, tip: Option<Tip>) -> Self {
        let start = Tip { count: 0, hash: genesis.hash() };
        Self { genesis, tip: tip.unwrap_or(start), trust_first: false, sealed: None, records: 0, bytes: 0, findings: Vec::new(), more: 0 }
    }

    /// A checker that begins at `seq` without knowing the line before.
    pub(crate) fn from(genesis: Genesis, seq: u64) -> Self {
        let mut checker = Self::new(genesis, Some(Tip { count: seq, hash: genesis.hash() }));
        checker.trust_first = seq > 0;
        checker
    }

    fn watch_seal(&mut self, slots: &Slots) {
        if let Slots::Sealed(seal) = slots {
            self.sealed = seal.count.checked_sub(1).map(|seq| (seq, None));
        }
    }

    pub(crate) fn found(&mut self, seq: Option<u64>, what: Flaw, why: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { seq, what, why: why.into() });
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn run(&mut self, db: &Connection, from: i64) -> Result<(), JournalError> {
        let mut statement = db
            .prepare(&format!("SELECT {} FROM record WHERE seq >= ?1 ORDER BY seq", store::COLUMNS))
            .map_err(JournalError::db("read the records"))?;
        let from = if from == 0 { i64::MIN } else { from };
        let mut rows = statement.query([from]).map_err(JournalError::db("read the records"))?;
        loop {
            match rows.next() {
                Ok(Some(row)) => match Stored::of(row) {
                    Ok(stored) => self.check(&stored),
                    Err(error) => self.found(None, Flaw::FileDamaged, error.to_string()),
                },
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.found(Some(self.tip.count), Flaw::FileDamaged, error.to_string());
                    return Ok(());
                }
            }
        }
    }

    /// Checks one record and moves on to it, whatever it was, so that one flaw is reported once.
    pub(crate) fn check(&mut self, stored: &Stored<'_>) {
        self.records += 1;
        let Ok(seq) = u64::try_from(stored.seq) else {
            self.found(None, Flaw::OutOfPlace, format!("a record stands at {}", stored.seq));
            return;
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
            return;
        };
        self.bytes += line.len() as u64;
        match Layout::parse(line) {
            Ok(layout) => self.compare(seq, &layout, stored),
            Err(why) => self.found(Some(seq), Flaw::BadLine, why),
        }
        self.trust_first = false;
        self.tip = Tip { count: seq + 1, hash: sha256(line.as_bytes()) };
        if let Some((sealed, hash)) = &mut self.sealed
            && *sealed == seq
        {
            *hash = Some(self.tip.hash);
        }
    }

    fn compare(&mut self, seq: u64, layout: &Layout<'_>, stored: &Stored<'_>) {
        if layout.seq != seq {
            self.found(Some(seq), Flaw::OutOfPlace, format!("the line says it is record {}", layout.seq));
        }
        let expected = hash_hex(&self.tip.hash);
        if layout.hash_prev.map(str::as_bytes) != (seq > 0).then_some(&expected[..]) && !self.trust_first {
            let why = match seq {
                0 => "the first record names a record before it".to_owned(),
                _ => format!("record {} is not the line that this one follows", seq - 1),
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
    }

    /// Compares the head with the seal; returns the seal's state and how many records it does not cover.
    fn judge_seal(&mut self, slots: &Slots) -> (SealState, u64) {
        let line = self.sealed.and_then(|(_, hash)| hash);
        let (state, unsealed, finding) = judge(slots, &self.genesis, &self.tip, line);
        if let Some(finding) = finding {
            self.found(finding.seq, finding.what, finding.why);
        }
        (state, unsealed)
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
        let why = "the line is not the one that was sealed".to_owned();
        return (SealState::Broken, tip.count - seal.count, finding(Some(seal.seq), Flaw::ChainBroken, why));
    }
    (SealState::Good, tip.count - seal.count, None)
}

/// A fresh place for a file that must be kept as proof.
pub(crate) fn evidence_path(home: &Path, what: &str) -> Result<PathBuf, JournalError> {
    let dir = home.join("evidence");
    files::private_dir(&dir)?;
    Ok(dir.join(format!("{what}-{}", hex(&files::random::<8>()?))))
}

fn evidence(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join("evidence")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
