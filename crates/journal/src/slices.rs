//! The chain in slices: checked by several threads, handed over in order, in constant memory.
//!
//! **Invariant.** A thread can only accept a slice, by the checker that also walks records one by one. Of a slice that it does not accept it
//! says nothing, and whoever takes the slices walks that part again. So findings do not depend on the number of threads.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use rusqlite::Connection;

use crate::canon;
use crate::chain::{Genesis, Hash, Tip};
use crate::error::JournalError;
use crate::lanes;
use crate::layout::Layout;
use crate::store::{self, Store, StoredRow};
use crate::verify::Checker;

/// One stored line.
#[derive(Debug)]
pub struct StoredLine<'a> {
    pub seq: u64,
    pub at_ms: i64,
    /// The bytes that the chain is made of, without the newline.
    pub text: &'a str,
    /// Its kind and its payload; `None` where it is not in the format.
    pub parts: Option<(Cow<'a, str>, &'a str)>,
}

impl<'a> StoredLine<'a> {
    pub(crate) fn new(seq: u64, at_ms: i64, text: &'a str, layout: Option<&Layout<'a>>) -> Self {
        Self { seq, at_ms, text, parts: layout.map(|layout| (canon::unescape(layout.kind), layout.payload)) }
    }
}

/// What one thread says of a slice.
pub(crate) enum SliceOutcome<M> {
    /// Everything in it is as it must be, if its first line follows on the one before.
    Accepted(AcceptedSlice<M>),
    /// All its records are there, and something is wrong with one.
    Unclean,
    /// It is not whole, or cannot be read.
    Unwhole,
}

pub(crate) struct AcceptedSlice<M> {
    /// What its first line quotes of the line before; `None` only in the first of all.
    pub follows: Option<[u8; 64]>,
    /// Its last line.
    pub tip: Tip,
    pub bytes: u64,
    /// The hash of the sealed line, if that is in it.
    pub sealed: Option<Hash>,
    /// What was made of its records.
    pub made: Vec<M>,
}

/// What to look for in every slice.
pub(crate) struct SliceWork<'a, F> {
    pub store: &'a Store,
    pub genesis: Genesis,
    /// The record that the seal names.
    pub sealed: Option<u64>,
    /// Makes something of a line, on any thread.
    pub make: &'a F,
}

/// The records that threads are worth starting for: from the checker's place to the present end. The rest is walked.
pub(crate) fn range(db: &Connection, checker: &Checker) -> Option<Range<u64>> {
    // A row below zero is a finding, and comes before all others.
    let is_odd = db.query_row("SELECT EXISTS (SELECT 1 FROM record WHERE seq < 0)", [], |row| row.get(0)).unwrap_or(true);
    let last: i64 = db.query_row("SELECT seq FROM record ORDER BY seq DESC LIMIT 1", [], |row| row.get(0)).ok()?;
    let range = checker.tip.count..u64::try_from(last).ok()?.saturating_add(1);
    (!is_odd && lanes::are_worth(&range)).then_some(range)
}

type TakeSlice<'a, M> = &'a mut dyn FnMut(Range<u64>, SliceOutcome<M>) -> Result<ControlFlow<()>, JournalError>;

/// Hands the slices of `range` to `take`, in order, until it has enough.
pub(crate) fn each<M: Send, F>(work: &SliceWork<'_, F>, range: &Range<u64>, take: TakeSlice<'_, M>) -> Result<(), JournalError>
where
    F: Fn(&StoredLine<'_>) -> Option<M> + Sync,
{
    let check = |db: &Connection, slice: &Range<u64>| work.check(db, slice).unwrap_or(SliceOutcome::Unwhole);
    lanes::run(work.store, range, false, &check, &mut |slice, outcome| take(slice, outcome.unwrap_or(SliceOutcome::Unwhole)))
}

impl<F> SliceWork<'_, F> {
    fn check<M>(&self, db: &Connection, range: &Range<u64>) -> Result<SliceOutcome<M>, rusqlite::Error>
    where
        F: Fn(&StoredLine<'_>) -> Option<M>,
    {
        let sql = format!("SELECT {} FROM record WHERE seq >= ?1 AND seq < ?2 ORDER BY seq", store::COLUMNS);
        let mut statement = db.prepare_cached(&sql)?;
        let mut checker = Checker::from(self.genesis, range.start);
        checker.watch(self.sealed);
        let (mut follows, mut made, mut count) = (None, Vec::new(), 0);
        let mut rows = statement.query([range.start.cast_signed(), range.end.cast_signed()])?;
        while let Some(row) = rows.next()? {
            let stored = StoredRow::of(row)?;
            count += 1;
            if !checker.findings.is_empty() {
                continue;
            }
            let layout = checker.check(&stored);
            if count == 1 {
                follows = layout.as_ref().and_then(|layout| layout.hash_prev?.as_bytes().try_into().ok());
            }
            if let (Some(text), Some(at_ms)) = (stored.line, stored.at_ms) {
                made.extend((self.make)(&StoredLine::new(stored.seq.cast_unsigned(), at_ms, text, layout.as_ref())));
            }
        }
        Ok(match () {
            // Each place has one row at most, so these are all of them.
            () if count != range.end - range.start => SliceOutcome::Unwhole,
            () if !checker.findings.is_empty() => SliceOutcome::Unclean,
            () => {
                let sealed = checker.sealed_line();
                SliceOutcome::Accepted(AcceptedSlice { follows, tip: checker.tip, bytes: checker.bytes, sealed, made })
            }
        })
    }
}
