//! Many records of some kinds, made into something else by several threads.

use std::ops::{ControlFlow, Range};

use rusqlite::Connection;

use crate::error::JournalError;
use crate::index::RecordIndex;
use crate::lanes;
use crate::read::{self, Filter, Record};
use crate::store::{self, Store};

/// Records that are handed over together where one thread is enough.
const CHUNK: usize = 500;

/// No line is shorter.
const LINE_BYTES_MIN: u64 = 100;

/// Hands what `make` makes of the records that match to `take`, in the filter's order, until it has enough. The filter's limit is not
/// looked at.
pub(crate) fn gather<M: Send>(
    store: &Store,
    db: &Connection,
    index: &RecordIndex,
    filter: &Filter,
    make: &(impl Fn(Record) -> Option<M> + Sync),
    take: &mut dyn FnMut(Vec<M>) -> ControlFlow<()>,
) -> Result<(), JournalError> {
    let filter = Filter { limit: None, ..filter.clone() };
    // Where the index leads to few of many, one thread has them sooner.
    let range = if index.plan(&filter).is_some() { 0..0 } else { range(db, &filter)? };
    if !lanes::are_worth(&range) {
        let (mut made, mut is_enough) = (Vec::new(), false);
        read::select(db, index, &filter, &mut |record| {
            made.extend(make(record));
            is_enough = made.len() >= CHUNK && take(std::mem::take(&mut made)).is_break();
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        // What comes of the last ones decides nothing any more.
        let _ = if is_enough { ControlFlow::Break(()) } else { take(made) };
        return Ok(());
    }
    let (condition, values) = filter.condition();
    let order = if filter.reverse { "seq DESC" } else { "seq" };
    let sql = format!("SELECT {} FROM record WHERE {condition} AND seq >= ? AND seq < ? ORDER BY {order}", store::COLUMNS);
    let work = |db: &Connection, slice: &Range<u64>| {
        let mut made = Vec::new();
        let values = values.iter().cloned().chain([read::number(slice.start), read::number(slice.end)]);
        read::rows(db, &sql, values, &mut |stored| {
            made.extend(make(Record::of(stored)?));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(made)
    };
    lanes::run(store, &range, filter.reverse, &work, &mut |_, made| match made {
        Some(made) => made.map(&mut *take),
        None => Err(JournalError::Closed),
    })
}

/// Where records of the filter can be; nothing where the places are too far apart to be a journal's, and one thread looks from row to row.
fn range(db: &Connection, filter: &Filter) -> Result<Range<u64>, JournalError> {
    let number = |sql: &str| {
        let number = db.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).map_err(JournalError::db("read the head"))?;
        Ok::<_, JournalError>(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
    };
    let end = number("SELECT max(seq) + 1 FROM record")?;
    let rows_max = number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?) / LINE_BYTES_MIN;
    let range = filter.after_seq.map_or(0, |seq| seq.saturating_add(1))..end.min(filter.before_seq.unwrap_or(u64::MAX));
    Ok(if end <= rows_max { range } else { 0..0 })
}
