//! The thread that brings the index up to the journal.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::{RecordIndex, connect, kind_key, pid_key, task_key};
use crate::chain::Genesis;
use crate::error::JournalError;
use crate::files;
use crate::store::{self, Store};

/// So many records are one transaction of the index.
const SLICE: i64 = 2_000;

/// The version of these tables is part of the identity, so that another version makes them again.
const TABLES: &str = "CREATE TABLE IF NOT EXISTS meta (only INTEGER PRIMARY KEY CHECK (only = 1), identity BLOB NOT NULL, count INTEGER NOT NULL, line BLOB NOT NULL);
     CREATE TABLE IF NOT EXISTS key (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, count INTEGER NOT NULL);
     CREATE TABLE IF NOT EXISTS entry (key INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (key, seq)) WITHOUT ROWID;
     CREATE TABLE IF NOT EXISTS span (first INTEGER PRIMARY KEY, after INTEGER NOT NULL, earliest_ms INTEGER NOT NULL, latest_ms INTEGER NOT NULL);";
const VERSION: &[u8] = b"skep index 1";

pub(super) struct Follower {
    index: Arc<RecordIndex>,
    journal: Connection,
    db: Connection,
    identity: Vec<u8>,
    /// Ids of keys that were used lately.
    keys: HashMap<String, i64>,
}

impl Follower {
    /// Starts it; it opens its files itself.
    pub(super) fn spawn(index: Arc<RecordIndex>, store: Store, genesis: Genesis) -> Result<JoinHandle<()>, JournalError> {
        let path = index.path.clone();
        let run = move || {
            // Where that is not allowed, the index is made at the speed of everything else.
            let _ = rustix::process::nice(19);
            let followed = Follower::open(index.clone(), &store, &genesis).and_then(|mut follower| follower.run());
            if let Err(error) = followed {
                index.give_up(error);
            }
        };
        thread::Builder::new().name("journal-index".into()).spawn(run).map_err(JournalError::io("start the follower for", &path))
    }

    fn open(index: Arc<RecordIndex>, store: &Store, genesis: &Genesis) -> Result<Follower, JournalError> {
        let journal = store.open_reader()?;
        let identity = [VERSION, &genesis.0[..]].concat();
        let db = match fitting(&index.path, &identity, &journal)? {
            Some(db) => db,
            None => {
                remove(&index.path)?;
                begin(&index.path).map_err(JournalError::db("make the index"))?
            }
        };
        Ok(Follower { index, journal, db, identity, keys: HashMap::new() })
    }

    /// Follows until the journal is closed.
    fn run(&mut self) -> Result<(), JournalError> {
        loop {
            let mut reach = place(&self.db).map_err(JournalError::db("read the index"))?;
            while !self.index.is_over() {
                let now = self.slice(reach)?;
                self.index.reach.store(now.cast_unsigned(), Ordering::SeqCst);
                if now == reach {
                    break;
                }
                reach = now;
            }
            if self.index.is_over() {
                return Ok(());
            }
            self.index.next.store(reach.cast_unsigned() + self.index.step, Ordering::Relaxed);
            thread::park();
        }
    }

    /// Takes the next records in, all of them or none, and says where the index ends then.
    fn slice(&mut self, from: i64) -> Result<i64, JournalError> {
        let (mut entries, mut last) = (Vec::new(), None);
        let mut times = (i64::MAX, i64::MIN);
        let sql = "SELECT seq, kind, pid, task, at_ms FROM record WHERE seq >= ?1 ORDER BY seq LIMIT ?2";
        let mut records = self.journal.prepare_cached(sql).map_err(JournalError::db("read records"))?;
        let mut rows = records.query([from, SLICE]).map_err(JournalError::db("read records"))?;
        while let Some(row) = rows.next().map_err(JournalError::db("read records"))? {
            // A column of the wrong type has no key. The journal's own check tells of it, and here no reader finds it.
            let seq: i64 = row.get(0).map_err(JournalError::db("read a record"))?;
            let kind = row.get::<_, String>(1).ok().map(|kind| kind_key(&kind));
            let pid = row.get::<_, Option<i64>>(2).ok().flatten().map(|pid| pid_key(pid.cast_unsigned()));
            let task = row.get::<_, Option<String>>(3).ok().flatten().map(|task| task_key(&task));
            let at_ms = row.get(4).map_err(JournalError::db("read a record"))?;
            times = (times.0.min(at_ms), times.1.max(at_ms));
            entries.extend([kind, pid, task].into_iter().flatten().map(|key| (key, seq)));
            last = Some(seq);
        }
        drop(rows);
        drop(records);
        let Some(last) = last else { return Ok(from) };
        let line = store::line_hash(&self.journal, last.cast_unsigned())?.unwrap_or_default();
        // Neighbours in the table are written together.
        entries.sort();
        self.write(&entries, Span { first: from, after: last + 1, times }, &line).map_err(JournalError::db("write the index"))?;
        Ok(last + 1)
    }

    fn write(&mut self, entries: &[(String, i64)], span: Span, line: &[u8; 32]) -> Result<(), rusqlite::Error> {
        let change = self.db.transaction()?;
        {
            let mut make = change.prepare_cached("INSERT INTO key (name, count) VALUES (?1, 0) ON CONFLICT DO NOTHING")?;
            let mut find = change.prepare_cached("SELECT id FROM key WHERE name = ?1")?;
            let mut add = change.prepare_cached("INSERT INTO entry VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
            let mut grow = change.prepare_cached("UPDATE key SET count = count + ?2 WHERE id = ?1")?;
            for group in entries.chunk_by(|one, other| one.0 == other.0) {
                let Some((name, _)) = group.first() else { continue };
                let id = match self.keys.get(name) {
                    Some(id) => *id,
                    None => {
                        make.execute([name])?;
                        find.query_row([name], |row| row.get(0))?
                    }
                };
                self.keys.insert(name.clone(), id);
                for (_, seq) in group {
                    add.execute([id, *seq])?;
                }
                grow.execute([id, i64::try_from(group.len()).unwrap_or(i64::MAX)])?;
            }
            let meta = "INSERT INTO meta VALUES (1, ?1, ?2, ?3) ON CONFLICT DO UPDATE SET identity = ?1, count = ?2, line = ?3";
            change.prepare_cached(meta)?.execute((&self.identity, span.after, &line[..]))?;
            let (earliest_ms, latest_ms) = span.times;
            change.prepare_cached("INSERT INTO span VALUES (?1, ?2, ?3, ?4)")?.execute([span.first, span.after, earliest_ms, latest_ms])?;
        }
        // Tasks come and go.
        if self.keys.len() > 10_000 {
            self.keys.clear();
        }
        change.commit()
    }
}

/// Records that were taken in together.
struct Span {
    first: i64,
    after: i64,
    /// The earliest and the latest of them.
    times: (i64, i64),
}

/// The index that is there, if it is of this journal and of its present records.
fn fitting(path: &Path, identity: &[u8], journal: &Connection) -> Result<Option<Connection>, JournalError> {
    if !path.exists() {
        return Ok(None);
    }
    let read = |db: Connection| {
        let meta = db.query_row("SELECT identity, count, line FROM meta", [], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        });
        Ok::<_, rusqlite::Error>((meta.optional()?, db))
    };
    // One that cannot be read is as good as none.
    let Ok((Some((of, count, line)), db)) = begin(path).and_then(read) else { return Ok(None) };
    let last = store::line_hash(journal, count.cast_unsigned().saturating_sub(1))?;
    Ok((of == identity && last.is_some_and(|last| last[..] == line)).then_some(db))
}

/// Synced at checkpoints only: after a power cut it is behind, never wrong.
fn begin(path: &Path) -> Result<Connection, rusqlite::Error> {
    if let Err(error) = files::create_private(path) {
        return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(error)));
    }
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
    db.execute_batch(TABLES)?;
    Ok(db)
}

fn place(db: &Connection) -> Result<i64, rusqlite::Error> {
    Ok(db.query_row("SELECT count FROM meta", [], |row| row.get(0)).optional()?.unwrap_or(0))
}

pub(super) fn remove(path: &Path) -> Result<(), JournalError> {
    for end in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        let file = PathBuf::from(name);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(JournalError::io("remove", &file)(error)),
            _ => {}
        }
    }
    Ok(())
}
