//! Reading: filters, streams, export. Own connections, so a reader never waits for the writer nor the writer for it.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use parking_lot::Mutex;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::JournalError;
use crate::index::{IndexPlan, PLACES_MAX, RecordIndex};
use crate::layout::Layout;
use crate::slices::{self, SliceOutcome, SliceWork, StoredLine};
use crate::store::{self, Store, StoredRow};
use crate::verify::Checker;

/// Which records to read. The default is all of them.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only records with a greater seq.
    pub after_seq: Option<u64>,
    /// Only records with a smaller seq.
    pub before_seq: Option<u64>,
    pub limit: Option<u64>,
    pub pid: Option<u64>,
    pub task: Option<String>,
    /// Any of these: `call.admitted` is one kind, `call.` or `call.*` is all that begin so.
    pub kinds: Vec<String>,
    pub session: Option<String>,
    /// From this time on, Unix milliseconds.
    pub since_ms: Option<i64>,
    /// Before this time.
    pub until_ms: Option<i64>,
    /// Newest first.
    pub reverse: bool,
    /// Looks at every record instead of asking the index: for whoever destroys what no record names.
    pub scans: bool,
}

/// One stored record: the line, and the index derived from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub seq: u64,
    pub kind: String,
    pub at_ms: i64,
    pub session: String,
    pub pid: Option<u64>,
    pub task: Option<String>,
    /// The bytes that the chain is made of, without the newline.
    pub line: String,
}

impl Record {
    /// The payload's JSON, as it stands in the line. Fails on a line of an unknown version.
    pub fn payload(&self) -> Result<&str, JournalError> {
        self.layout().map(|layout| layout.payload)
    }

    pub fn event_id(&self) -> Result<&str, JournalError> {
        self.layout().map(|layout| layout.event_id)
    }

    /// ISO 8601 with milliseconds, UTC.
    pub fn timestamp(&self) -> Result<&str, JournalError> {
        self.layout().map(|layout| layout.timestamp)
    }

    /// The line with its parts.
    pub fn as_line(&self) -> StoredLine<'_> {
        StoredLine::new(self.seq, self.at_ms, &self.line, Layout::parse(&self.line).ok().as_ref())
    }

    fn layout(&self) -> Result<Layout<'_>, JournalError> {
        Layout::parse(&self.line).map_err(|why| JournalError::Malformed { seq: self.seq, why: why.to_owned() })
    }

    pub(crate) fn of(stored: &StoredRow<'_>) -> Result<Self, JournalError> {
        let seq = stored.seq.cast_unsigned();
        let absent = |column: &str| JournalError::Malformed { seq, why: format!("column {column} has the wrong type") };
        Ok(Self {
            seq,
            kind: stored.kind.ok_or_else(|| absent("kind"))?.to_owned(),
            at_ms: stored.at_ms.ok_or_else(|| absent("at_ms"))?,
            session: stored.session.ok_or_else(|| absent("session"))?.to_owned(),
            pid: stored.pid.as_i64_or_null().map_err(|_| absent("pid"))?.map(i64::cast_unsigned),
            task: stored.task.as_str_or_null().map_err(|_| absent("task"))?.map(str::to_owned),
            line: stored.line.ok_or_else(|| absent("line"))?.to_owned(),
        })
    }
}

/// Idle reader connections.
pub(crate) struct ReadConnections {
    store: Store,
    idle: Mutex<Vec<Connection>>,
}

impl ReadConnections {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, idle: Mutex::new(Vec::new()) }
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, JournalError>) -> Result<T, JournalError> {
        let idle = self.idle.lock().pop();
        let db = match idle {
            Some(db) => db,
            None => self.store.open_reader()?,
        };
        let result = work(&db);
        let mut idle = self.idle.lock();
        if result.is_ok() && idle.len() < 4 {
            idle.push(db);
        }
        result
    }

    /// Those that are in use keep what they have.
    pub(crate) fn release_memory(&self) {
        self.idle.lock().iter().for_each(store::release_memory);
    }

    pub(crate) fn close(&self) {
        self.idle.lock().clear();
    }
}

type Visit<'a> = &'a mut dyn FnMut(Record) -> ControlFlow<()>;

pub(crate) fn select(db: &Connection, index: &RecordIndex, filter: &Filter, visit: Visit<'_>) -> Result<(), JournalError> {
    found(db, index, filter, &mut |stored| Ok(visit(Record::of(stored)?)))
}

/// Records of the journal in `home` that match, read by a scan and without a writer.
pub fn read_offline(home: &Path, filter: &Filter) -> Result<Vec<Record>, JournalError> {
    let mut records = Vec::new();
    each(&Store::at(home).open_reader()?, filter, &mut |stored| {
        records.push(Record::of(stored)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(records)
}

/// Takes what `make` makes of every record, in order, from the checker's place on.
pub(crate) fn replay<M: Send>(
    store: &Store,
    db: &Connection,
    checker: &mut Checker,
    make: &(impl Fn(&StoredLine<'_>) -> M + Sync),
    take: &mut dyn FnMut(M) -> ControlFlow<()>,
) -> Result<(), JournalError> {
    let mut goes_on = true;
    if let Some(all) = slices::range(db, checker) {
        let some = |line: &StoredLine<'_>| Some(make(line));
        let work = SliceWork { store, genesis: checker.genesis, sealed: None, make: &some };
        slices::each(&work, &all, &mut |range, outcome| {
            let is_taken = match outcome {
                SliceOutcome::Accepted(slice) if checker.accept(&range, &slice) => {
                    slice.made.into_iter().try_for_each(&mut *take).is_continue()
                }
                SliceOutcome::Accepted(_) | SliceOutcome::Unclean => replay_each(db, checker, Some(range.end), make, take)?,
                SliceOutcome::Unwhole => return Ok(ControlFlow::Break(())),
            };
            goes_on = is_taken;
            Ok(if is_taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
    }
    if goes_on {
        replay_each(db, checker, None, make, take)?;
    }
    Ok(())
}

/// The same one by one, up to `before_seq`. Says whether more is wanted.
fn replay_each<M>(
    db: &Connection,
    checker: &mut Checker,
    before_seq: Option<u64>,
    make: &impl Fn(&StoredLine<'_>) -> M,
    take: &mut dyn FnMut(M) -> ControlFlow<()>,
) -> Result<bool, JournalError> {
    let filter = Filter { after_seq: checker.tip.count.checked_sub(1), before_seq, ..Filter::default() };
    each(db, &filter, &mut |stored| {
        let layout = checker.check(stored);
        let record = Record::of(stored)?;
        Ok(take(make(&StoredLine::new(record.seq, record.at_ms, &record.line, layout.as_ref()))))
    })
}

pub(crate) fn export(db: &Connection, index: &RecordIndex, filter: &Filter, out: &mut dyn Write, path: &Path) -> Result<u64, JournalError> {
    let mut count = 0;
    found(db, index, filter, &mut |stored| {
        let line = stored.line.unwrap_or_default();
        let written = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
        written.map_err(JournalError::io("export", path))?;
        count += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    out.flush().map_err(JournalError::io("export", path))?;
    Ok(count)
}

type Each<'a> = &'a mut dyn FnMut(&StoredRow<'_>) -> Result<ControlFlow<()>, JournalError>;

/// Visits what the filter wants: what the index knows by it, the rest by a scan.
fn found(db: &Connection, index: &RecordIndex, filter: &Filter, visit: Each<'_>) -> Result<(), JournalError> {
    let Some(plan) = index.plan(filter) else { return each(db, filter, visit).map(drop) };
    let mut left = filter.limit.unwrap_or(u64::MAX);
    let mut counted = |stored: &StoredRow<'_>| {
        left -= 1;
        Ok(if visit(stored)?.is_break() || left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    if filter.limit == Some(0) {
        return Ok(());
    }
    let scanned = Filter { after_seq: filter.after_seq.max(plan.reach.checked_sub(1)), ..filter.clone() };
    if filter.reverse {
        if each(db, &scanned, &mut counted)? {
            indexed(db, index, &plan, filter, &mut counted)?;
        }
    } else if indexed(db, index, &plan, filter, &mut counted)? {
        each(db, &scanned, &mut counted)?;
    }
    Ok(())
}

/// Visits what the index leads to. Says whether more is wanted.
fn indexed(db: &Connection, index: &RecordIndex, plan: &IndexPlan, filter: &Filter, visit: Each<'_>) -> Result<bool, JournalError> {
    let mut from = plan.from.max(filter.after_seq.map_or(0, |seq| seq.saturating_add(1)));
    let mut until = plan.until.min(filter.before_seq.unwrap_or(u64::MAX));
    let (condition, values) = filter.condition();
    let sql = format!("SELECT {} FROM record WHERE {condition} AND seq = ?", store::COLUMNS);
    while from < until {
        // Where it cannot be read after all, the rest is scanned.
        let Ok(Some(places)) = index.places(plan, from, until, filter.reverse) else {
            return each(db, &Filter { after_seq: from.checked_sub(1), before_seq: Some(until), ..filter.clone() }, visit);
        };
        for seq in &places {
            let values = values.iter().cloned().chain([Value::Integer(seq.cast_signed())]);
            if !rows(db, &sql, values, visit)? {
                return Ok(false);
            }
        }
        match places.last().filter(|_| places.len() == PLACES_MAX) {
            Some(last) if filter.reverse => until = *last,
            Some(last) => from = last + 1,
            None => break,
        }
    }
    Ok(true)
}

/// Visits what the filter wants, by a scan. Says whether more is wanted.
fn each(db: &Connection, filter: &Filter, visit: Each<'_>) -> Result<bool, JournalError> {
    let (condition, mut values) = filter.condition();
    let order = if filter.reverse { "seq DESC" } else { "seq" };
    let sql = format!("SELECT {} FROM record WHERE {condition} ORDER BY {order} LIMIT ?", store::COLUMNS);
    values.push(number(filter.limit.unwrap_or(u64::MAX)));
    rows(db, &sql, values, visit)
}

pub(crate) fn rows(db: &Connection, sql: &str, values: impl IntoIterator<Item = Value>, visit: Each<'_>) -> Result<bool, JournalError> {
    let mut statement = db.prepare_cached(sql).map_err(JournalError::db("prepare a read"))?;
    let mut rows = statement.query(params_from_iter(values)).map_err(JournalError::db("read records"))?;
    while let Some(row) = rows.next().map_err(JournalError::db("read records"))? {
        let stored = StoredRow::of(row).map_err(JournalError::db("read a record"))?;
        if visit(&stored)?.is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn number(seq: u64) -> Value {
    Value::Integer(i64::try_from(seq).unwrap_or(i64::MAX))
}

/// What a wanted kind begins with, where it stands for several: a kind never ends in a dot, so one that does is such a beginning.
fn beginning(kind: &str) -> Option<&str> {
    kind.strip_suffix('*').or_else(|| kind.ends_with('.').then_some(kind))
}

impl Filter {
    /// Whether records of this kind are wanted, as far as kinds decide.
    pub(crate) fn wants_kind(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|wanted| beginning(wanted).map_or(wanted == kind, |start| kind.starts_with(start)))
    }

    /// What a record must meet, in the database's words.
    pub(crate) fn condition(&self) -> (String, Vec<Value>) {
        let mut sql = "1".to_owned();
        let mut values = Vec::new();
        let mut and = |condition: &str, value: Value| {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.push(value);
        };
        if let Some(seq) = self.after_seq {
            and("seq > ?", number(seq));
        }
        if let Some(seq) = self.before_seq {
            and("seq < ?", number(seq));
        }
        if let Some(pid) = self.pid {
            and("pid = ?", number(pid));
        }
        if let Some(task) = &self.task {
            and("task = ?", Value::Text(task.clone()));
        }
        if let Some(session) = &self.session {
            and("session = ?", Value::Text(session.clone()));
        }
        if let Some(at_ms) = self.since_ms {
            and("at_ms >= ?", Value::Integer(at_ms));
        }
        if let Some(at_ms) = self.until_ms {
            and("at_ms < ?", Value::Integer(at_ms));
        }
        if !self.kinds.is_empty() {
            sql.push_str(" AND (0");
            for kind in &self.kinds {
                if let Some(start) = beginning(kind) {
                    sql.push_str(" OR substr(kind, 1, length(?)) = ?");
                    values.extend([Value::Text(start.to_owned()), Value::Text(start.to_owned())]);
                } else {
                    sql.push_str(" OR kind = ?");
                    values.push(Value::Text(kind.clone()));
                }
            }
            sql.push(')');
        }
        (sql, values)
    }
}
