//! The database: its schema, its settings, one row per record.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};

use crate::body;
use crate::chain::{Genesis, Tip, sha256};
use crate::error::JournalError;
use crate::files;
use crate::writer::COMMIT_BYTES_MAX;

const SCHEMA: [(&str, &str); 3] = [
    ("meta", "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"),
    (
        "record",
        "CREATE TABLE record (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, at_ms INTEGER NOT NULL, session TEXT NOT NULL, pid INTEGER, task TEXT, line TEXT NOT NULL)",
    ),
    body::TABLE,
];
/// Tables that a journal of an earlier version has not.
const LATER: [&str; 1] = [body::TABLE.0];

pub(crate) const COLUMNS: &str = "seq, kind, at_ms, session, pid, task, line";
pub(crate) const INSERT: &str = "INSERT INTO record (seq, kind, at_ms, session, pid, task, line) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Where the database is and how to open it.
#[derive(Clone)]
pub(crate) struct Store {
    pub path: PathBuf,
    pub vfs: Option<String>,
    /// Off only in the control of the power-loss test, which must then lose records.
    pub synchronous: bool,
}

impl Store {
    pub(crate) fn at(home: &Path) -> Self {
        Self { path: home.join("journal.db"), vfs: None, synchronous: true }
    }

    /// The writer's connection; makes the database where there is none.
    pub(crate) fn open_writer(&self) -> Result<(Connection, Genesis), JournalError> {
        files::create_private(&self.path).map_err(JournalError::io("open", &self.path))?;
        let db = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let synchronous = if self.synchronous { "FULL" } else { "OFF" };
        // Pages of 8 KiB: the WAL costs two system calls a page, and a group of 64 records fills four of them.
        // The writer checkpoints itself (writer.rs), when nobody waits for a ticket.
        let settings = format!(
            "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
             PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;
             PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = OFF; PRAGMA secure_delete = FAST;"
        );
        db.execute_batch(&settings).map_err(|error| self.failed("set up the connection", error))?;
        let tables: i64 =
            db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(JournalError::db("read the schema"))?;
        if tables == 0 {
            let nonce = files::random::<32>()?;
            let [(_, meta), (_, record), (_, body)] = SCHEMA;
            let made = db.execute_batch(&format!("BEGIN IMMEDIATE; {meta}; {record}; {body};")).and_then(|()| {
                db.execute("INSERT INTO meta VALUES ('nonce', ?1)", [&nonce[..]])?;
                db.execute_batch("COMMIT")
            });
            made.map_err(|error| self.failed("make the tables", error))?;
        }
        let genesis = self.genesis(&db)?;
        if !has_table(&db, body::TABLE.0)? {
            db.execute_batch(body::TABLE.1).map_err(|error| self.failed("make the table of bodies", error))?;
        }
        Ok((db, genesis))
    }

    /// A failed write or a failed growth of the shared memory file says only "IO error".
    fn failed(&self, what: &'static str, error: rusqlite::Error) -> JournalError {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::SystemIoFailure) if self.disk_is_full() => {
                JournalError::DiskFull { records: 0, source: Arc::new(error) }
            }
            _ => JournalError::db(what)(error),
        }
    }

    /// Is there less space than a commit may need?
    pub(crate) fn disk_is_full(&self) -> bool {
        rustix::fs::statvfs(&self.path).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < COMMIT_BYTES_MAX as u64)
    }

    /// A connection that can't write.
    pub(crate) fn open_reader(&self) -> Result<Connection, JournalError> {
        let db = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        db.execute_batch("PRAGMA cache_size = -1024; PRAGMA trusted_schema = OFF; PRAGMA query_only = ON;")
            .map_err(JournalError::db("set up the connection"))?;
        Ok(db)
    }

    /// A connection for checkpoints beside the writer.
    pub(crate) fn open_checkpointer(&self) -> Result<Connection, JournalError> {
        let db = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let synchronous = if self.synchronous { "FULL" } else { "OFF" };
        db.execute_batch(&format!("PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -256;"))
            .map_err(JournalError::db("set up the connection"))?;
        Ok(db)
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection, JournalError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let opened = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs.as_str()),
            None => Connection::open_with_flags(&self.path, flags),
        };
        let db = opened.map_err(JournalError::db("open the connection"))?;
        // A trigger that somebody left in the file is a finding; it must not run.
        db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
            .map_err(JournalError::db("set up the connection"))?;
        db.busy_timeout(std::time::Duration::from_secs(5)).map_err(JournalError::db("set up the connection"))?;
        Ok(db)
    }

    pub(crate) fn genesis(&self, db: &Connection) -> Result<Genesis, JournalError> {
        let nonce: Option<Vec<u8>> = db
            .query_row("SELECT value FROM meta WHERE key = 'nonce'", [], |row| row.get(0))
            .optional()
            .map_err(JournalError::db("read the genesis"))?;
        match nonce.as_deref().map(<[u8; 32]>::try_from) {
            Some(Ok(nonce)) => Ok(Genesis(nonce)),
            _ => Err(JournalError::BadFile { path: self.path.clone(), why: "it has no genesis, so it is not a journal".into() }),
        }
    }
}

pub(crate) fn has_table(db: &Connection, name: &str) -> Result<bool, JournalError> {
    db.query_row("SELECT count(*) FROM sqlite_schema WHERE name = ?1", [name], |row| row.get::<_, i64>(0))
        .map(|count| count > 0)
        .map_err(JournalError::db("read the schema"))
}

/// Frees the pages of the database that a connection has in memory and does not use now. It only saves memory: one that cannot keeps them, and its next
/// use says what is wrong with it.
pub(crate) fn release_memory(db: &Connection) {
    let _ = db.execute_batch("PRAGMA shrink_memory");
}

/// A commit of nothing but a number, for its sync.
pub(crate) fn mark_synced(db: &Connection, count: u64) -> Result<(), rusqlite::Error> {
    let mark = "INSERT INTO meta VALUES ('synced', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1";
    db.prepare_cached(mark)?.execute([count.cast_signed()]).map(drop)
}

/// The last record in the database, or genesis.
pub(crate) fn tip(db: &Connection, genesis: &Genesis) -> Result<Tip, JournalError> {
    let last = db
        .query_row("SELECT seq, line FROM record ORDER BY seq DESC LIMIT 1", [], |row| {
            let line = row.get_ref(1)?;
            Ok((row.get::<_, i64>(0)?, sha256(text(line).unwrap_or_default())))
        })
        .optional()
        .map_err(JournalError::db("read the head"))?;
    Ok(match last {
        Some((seq, hash)) => Tip { count: u64::try_from(seq).unwrap_or_default() + 1, hash },
        None => Tip { count: 0, hash: genesis.hash() },
    })
}

/// The hash of one stored line, if it is there.
pub(crate) fn line_hash(db: &Connection, seq: u64) -> Result<Option<[u8; 32]>, JournalError> {
    db.query_row("SELECT line FROM record WHERE seq = ?1", [seq.cast_signed()], |row| Ok(sha256(text(row.get_ref(0)?).unwrap_or_default())))
        .optional()
        .map_err(JournalError::db("read a record"))
}

/// The bytes of one stored line, if it is there.
pub(crate) fn line(db: &Connection, seq: u64) -> Result<Option<Vec<u8>>, JournalError> {
    db.query_row("SELECT line FROM record WHERE seq = ?1", [seq.cast_signed()], |row| {
        Ok(text(row.get_ref(0)?).unwrap_or_default().to_vec())
    })
    .optional()
    .map_err(JournalError::db("read a record"))
}

/// Names in the schema that this crate did not make, or made differently: a trigger could change what is inserted.
pub(crate) fn foreign_schema(db: &Connection) -> Result<Vec<String>, JournalError> {
    let mut statement = db
        .prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_autoindex_%'")
        .map_err(JournalError::db("read the schema"))?;
    let found = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(JournalError::db("read the schema"))?;
    let known = |name: &str, sql: &str| SCHEMA.iter().any(|(n, s)| *n == name && *s == sql);
    let mut foreign: Vec<String> = found.iter().filter(|(name, sql)| !known(name, sql)).map(|(name, _)| name.clone()).collect();
    let missing = SCHEMA.iter().filter(|(n, _)| !LATER.contains(n) && !found.iter().any(|(name, _)| name == n));
    foreign.extend(missing.map(|(n, _)| (*n).to_owned()));
    Ok(foreign)
}

/// One row, borrowed from the statement. A column of the wrong type reads as absent, which the checker reports.
pub(crate) struct StoredRow<'a> {
    pub seq: i64,
    pub kind: Option<&'a str>,
    pub at_ms: Option<i64>,
    pub session: Option<&'a str>,
    pub pid: ValueRef<'a>,
    pub task: ValueRef<'a>,
    pub line: Option<&'a str>,
}

impl<'a> StoredRow<'a> {
    pub(crate) fn of(row: &'a Row<'_>) -> Result<Self, rusqlite::Error> {
        let str_at = |index| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_str().ok());
        Ok(Self {
            seq: row.get(0)?,
            kind: str_at(1)?,
            at_ms: row.get_ref(2)?.as_i64().ok(),
            session: str_at(3)?,
            pid: row.get_ref(4)?,
            task: row.get_ref(5)?,
            line: str_at(6)?,
        })
    }
}

fn text(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    }
}
