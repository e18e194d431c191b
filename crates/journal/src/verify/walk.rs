//! Walks the records in slices, each a short read of its own: a long one would keep the WAL from being written back.

use rusqlite::Connection;

use super::{Checker, Flaw};
use crate::error::JournalError;
use crate::store::{self, StoredRow};

/// Records of one slice: a few milliseconds.
pub(super) const SLICE_RECORDS: i64 = 2_000;

/// Checks the records from the checker's place on, those before `upto` if there is such an end. A page that cannot be read is told once
/// and stepped over. `false` when `go_on` said no.
pub(crate) fn walk(db: &Connection, checker: &mut Checker, upto: Option<u64>, go_on: &dyn Fn() -> bool) -> Result<bool, JournalError> {
    let sql = format!("SELECT {} FROM record WHERE seq >= ?1 AND seq < ?2 ORDER BY seq LIMIT {SLICE_RECORDS}", store::COLUMNS);
    let mut statement = db.prepare(&sql).map_err(JournalError::db("read the records"))?;
    let end = upto.map_or(i64::MAX, u64::cast_signed);
    // No record stands below zero, so one that does is a finding.
    let mut from = if checker.tip.count == 0 { i64::MIN } else { checker.tip.count.cast_signed() };
    let mut step = 0;
    while go_on() {
        let mut rows = statement.query([from, end]).map_err(JournalError::db("read the records"))?;
        let mut read = 0;
        let failed = loop {
            match rows.next() {
                Ok(Some(row)) => match StoredRow::of(row) {
                    Ok(stored) => {
                        from = stored.seq.saturating_add(1);
                        read += 1;
                        checker.check(&stored);
                    }
                    Err(error) => break Some(error),
                },
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        match failed {
            None if read < SLICE_RECORDS => return Ok(true),
            None => step = 0,
            Some(error) => {
                if read > 0 || step == 0 {
                    checker.found(u64::try_from(from.max(0)).ok(), Flaw::FileDamaged, error.to_string());
                    step = 1;
                } else {
                    step *= 2;
                }
                from = from.max(0).saturating_add(step);
                if from >= end.min(last(db).unwrap_or(i64::MAX)).saturating_add(1) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// The last place, where the file says one.
fn last(db: &Connection) -> Option<i64> {
    db.query_row("SELECT seq FROM record ORDER BY seq DESC LIMIT 1", [], |row| row.get(0)).ok()
}
