//! What contradicts the journal is moved to `evidence/`, told, and never applied.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

use crate::canon;
use crate::chain::{Genesis, hex};
use crate::error::JournalError;
use crate::files;
use crate::layout::Layout;
use crate::seal::Slots;
use crate::store;
use crate::verify::{Finding, Flaw};

/// How a journal says that its kernel came to rest.
const STOPPED: &str = "kernel.stopped";

/// A fresh place for a file that must be kept as proof.
pub(crate) fn place(home: &Path, what: &str) -> Result<PathBuf, JournalError> {
    let dir = home.join("evidence");
    files::private_dir(&dir)?;
    Ok(dir.join(format!("{what}-{}", hex(&files::random::<8>()?))))
}

pub(crate) fn list(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join("evidence")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What follows a stop: the next kernel's start.
const STARTED: &str = "kernel.started";

/// How many records there were at an orderly stop that nothing may follow: the sealed record is one, or it was changed, or a stop stands
/// after it and is not followed by a kernel's start. The last two are what is left when somebody changed the stop itself or took its seal.
/// Where no seal is good, every stop is looked at.
pub(crate) fn stop_below(db: &Connection, genesis: &Genesis, slots: &Slots) -> Result<Option<u64>, JournalError> {
    // Of another journal a seal says nothing.
    let Some(seal) = slots.sealed().filter(|seal| seal.genesis == hex(&genesis.hash())) else {
        // A page that cannot be read is named by the verification.
        return Ok(stop_after(db, 0).unwrap_or(None));
    };
    let sealed = seal.count.checked_sub(1).map(|seq| store::line(db, seq)).transpose()?.flatten();
    if sealed.is_some_and(|line| hex(&crate::chain::sha256(&line)) != seal.hash || is_kind(&line, STOPPED)) {
        return Ok(Some(seal.count));
    }
    stop_after(db, seal.count)
}

/// The first stop from `seq` on that no kernel's start follows, as the number of records up to it.
fn stop_after(db: &Connection, seq: u64) -> Result<Option<u64>, JournalError> {
    let mut statement =
        db.prepare("SELECT seq, line FROM record WHERE seq >= ?1 ORDER BY seq").map_err(JournalError::db("read the records"))?;
    let mut rows = statement.query([seq.cast_signed()]).map_err(JournalError::db("read the records"))?;
    let mut stopped = None;
    while let Some(row) = rows.next().map_err(JournalError::db("read the records"))? {
        let (seq, line) = row.get::<_, i64>(0).and_then(|seq| Ok((seq, row.get_ref(1)?))).map_err(JournalError::db("read the records"))?;
        let line = line.as_bytes_or_null().ok().flatten().unwrap_or_default();
        if stopped.is_some() && !is_kind(line, STARTED) {
            break;
        }
        stopped = is_kind(line, STOPPED).then(|| seq.cast_unsigned() + 1);
    }
    Ok(stopped)
}

fn is_kind(line: &[u8], kind: &str) -> bool {
    std::str::from_utf8(line).is_ok_and(|line| Layout::parse(line).is_ok_and(|line| canon::unescape(line.kind) == kind))
}

/// Takes out of the database what no kernel wrote: rows after an orderly stop or after a sealed record that was changed, and rows below
/// zero. They are on disk elsewhere before they go.
pub(crate) fn take_out(home: &Path, db: &mut Connection, genesis: &Genesis, slots: &Slots) -> Result<Vec<Finding>, JournalError> {
    let mut findings = Vec::new();
    if let Some(count) = stop_below(db, genesis, slots)?
        && let Some((rows, kept)) = take(home, db, "seq >= ?1", count.cast_signed())?
    {
        let why = format!(
            "{rows} rows stood after record {}, with which the kernel had stopped or which was changed; kept as `{kept}`",
            count - 1
        );
        findings.push(Finding { seq: Some(count), what: Flaw::RowsAfterStop, why });
    }
    if let Some((rows, kept)) = take(home, db, "seq < ?1", 0)? {
        findings.push(Finding { seq: None, what: Flaw::ForeignRows, why: format!("{rows} rows stood below record 0; kept as `{kept}`") });
    }
    Ok(findings)
}

/// Moves the rows to a file; gives their number and the file's name.
fn take(home: &Path, db: &mut Connection, which: &str, bound: i64) -> Result<Option<(u64, String)>, JournalError> {
    let database = || JournalError::db("move rows to the evidence");
    let transaction = db.transaction().map_err(database())?;
    let rows: u64 = transaction
        .query_row(&format!("SELECT count(*) FROM record WHERE {which}"), [bound], |row| row.get::<_, i64>(0))
        .map(i64::cast_unsigned)
        .map_err(database())?;
    if rows == 0 {
        return Ok(None);
    }
    let path = place(home, "rows")?;
    let io = |verb: &'static str| JournalError::io(verb, &path);
    let mut file = BufWriter::new(files::create_private(&path).map_err(io("make"))?);
    {
        let sql = format!("SELECT {} FROM record WHERE {which} ORDER BY seq", store::COLUMNS);
        let mut statement = transaction.prepare(&sql).map_err(database())?;
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut found = statement.query([bound]).map_err(database())?;
        while let Some(row) = found.next().map_err(database())? {
            let mut columns = serde_json::Map::new();
            for (index, name) in names.iter().enumerate() {
                columns.insert(name.clone(), told(row.get_ref(index).map_err(database())?));
            }
            writeln!(file, "{}", Value::Object(columns)).map_err(io("write"))?;
        }
    }
    file.into_inner().map_err(|error| error.into_error()).and_then(|file: File| file.sync_all()).map_err(io("write"))?;
    if let Some(dir) = path.parent() {
        files::sync_dir(dir)?;
    }
    transaction.execute(&format!("DELETE FROM record WHERE {which}"), [bound]).map_err(database())?;
    transaction.commit().map_err(database())?;
    let name = path.file_name().map(|name| format!("evidence/{}", name.to_string_lossy())).unwrap_or_default();
    Ok(Some((rows, name)))
}

/// A column as it was, whatever was in it.
fn told(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => text.into(),
            Err(_) => json!({"hex": hex(text)}),
        },
        ValueRef::Blob(bytes) => json!({"hex": hex(bytes)}),
    }
}
