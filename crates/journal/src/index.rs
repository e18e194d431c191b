//! The index: which records have a kind, a process or a task, so that a question about a few of a million records reads few.
//!
//! It follows the journal in a database of its own, on a thread that yields to all others, and never stands in the writer's way.
//! **Invariant.** It names places and nothing else: what a reader gets comes from the journal, where every condition is looked at once more.
//! Records that it has not come to are scanned. It is derived: a file that does not fit the journal is made again.

mod follower;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params_from_iter};

use crate::chain::Genesis;
use crate::error::JournalError;
use crate::read::Filter;
use crate::store::{self, Store};
use follower::Follower;

/// The index begins, and goes on, when so many records are not in it; a scan of fewer takes no time worth saving.
pub(crate) const STEP: u64 = 5_000;

/// What the follower, the readers and the writer share.
pub(crate) struct RecordIndex {
    path: PathBuf,
    /// Records before this place are in the index.
    reach: AtomicU64,
    /// The follower is woken when the journal has so many records.
    next: AtomicU64,
    step: u64,
    follower: Mutex<FollowerThread>,
    idle: Mutex<Vec<Connection>>,
    /// It cannot be read or written, and is of no use until the journal is opened again.
    is_broken: AtomicBool,
    /// Why, until somebody was told.
    trouble: Mutex<Option<JournalError>>,
}

enum FollowerThread {
    /// There was nothing to do for it yet.
    Unstarted {
        store: Store,
        genesis: Genesis,
    },
    Running(JoinHandle<()>),
    Over,
}

/// Where the records that a filter wants can be.
pub(crate) struct IndexPlan {
    /// Places before this one are asked of the index, the others of the journal.
    pub reach: u64,
    /// Of these a record has one; `None` where the times alone narrow the search.
    keys: Option<Vec<i64>>,
    /// What lies before `reach` and in the filter's time lies between these two.
    pub from: u64,
    pub until: u64,
}

impl RecordIndex {
    /// Nothing is read or written before the journal has `step` records.
    pub(crate) fn new(home: &Path, store: Store, genesis: Genesis, step: u64) -> Arc<RecordIndex> {
        Arc::new(RecordIndex {
            path: home.join("index.db"),
            reach: AtomicU64::new(0),
            next: AtomicU64::new(step),
            step,
            follower: Mutex::new(FollowerThread::Unstarted { store, genesis }),
            idle: Mutex::default(),
            is_broken: AtomicBool::new(false),
            trouble: Mutex::default(),
        })
    }

    /// The journal has so many records on disk. Wakes the follower when there is enough to do.
    pub(crate) fn grown(self: &Arc<Self>, count: u64) {
        if count < self.next.load(Ordering::Relaxed) {
            return;
        }
        let mut thread = self.follower.lock();
        match &*thread {
            FollowerThread::Running(running) => running.thread().unpark(),
            FollowerThread::Over => {}
            FollowerThread::Unstarted { store, genesis } => match Follower::spawn(self.clone(), store.clone(), *genesis) {
                Ok(running) => *thread = FollowerThread::Running(running),
                Err(error) => {
                    *thread = FollowerThread::Over;
                    self.give_up(error);
                }
            },
        }
        self.next.store(u64::MAX, Ordering::Relaxed);
    }

    /// Of connections that are in use nothing is freed.
    pub(crate) fn release_memory(&self) {
        self.idle.lock().iter().for_each(store::release_memory);
    }

    /// Ends the follower and waits for it.
    pub(crate) fn close(&self) {
        let thread = std::mem::replace(&mut *self.follower.lock(), FollowerThread::Over);
        if let FollowerThread::Running(running) = thread {
            running.thread().unpark();
            // It has told its trouble, if it had one.
            let _ = running.join();
        }
        self.idle.lock().clear();
    }

    pub(crate) fn reach(&self) -> u64 {
        if self.is_broken.load(Ordering::SeqCst) { 0 } else { self.reach.load(Ordering::SeqCst) }
    }

    pub(crate) fn take_trouble(&self) -> Option<JournalError> {
        self.trouble.lock().take()
    }

    /// Whether there is nothing more to do for the follower.
    fn is_over(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst) || matches!(*self.follower.lock(), FollowerThread::Over)
    }

    /// From here on everything is scanned. The next journal to be opened here makes the index anew.
    fn give_up(&self, error: JournalError) {
        if !self.is_broken.swap(true, Ordering::SeqCst) {
            let removed = follower::remove(&self.path);
            *self.trouble.lock() = Some(removed.err().unwrap_or(error));
        }
    }

    /// How to find what a filter wants; `None` where a scan is as good.
    pub(crate) fn plan(&self, filter: &Filter) -> Option<IndexPlan> {
        let reach = self.reach();
        let has_times = filter.since_ms.is_some() || filter.until_ms.is_some();
        let has_keys = filter.pid.is_some() || filter.task.is_some() || !filter.kinds.is_empty();
        if reach == 0 || filter.scans || !(has_times || has_keys) {
            return None;
        }
        // What cannot be read is told by `take_trouble`, and scanned.
        let (keys, (from, until)) = self.with(|db| Ok((fewest(db, filter)?, spanned(db, filter)?))).ok()?;
        let keys = keys.filter(|(count, _)| filter.limit.is_some() || *count < reach / 4).map(|(_, keys)| keys);
        (has_times || keys.is_some()).then_some(IndexPlan { reach, keys, from, until: until.min(reach) })
    }

    /// The places in this range that have one of the keys, in order. `None` where the plan has no keys.
    pub(crate) fn places(&self, plan: &IndexPlan, from: u64, until: u64, reverse: bool) -> Result<Option<Vec<u64>>, JournalError> {
        let Some(keys) = &plan.keys else { return Ok(None) };
        if keys.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let one = "SELECT seq FROM entry WHERE key = ? AND seq >= ? AND seq < ?";
        let all = vec![one; keys.len()].join(" UNION ALL ");
        let sql = format!("{all} ORDER BY seq{} LIMIT {PLACES_MAX}", if reverse { " DESC" } else { "" });
        let values = keys.iter().flat_map(|key| [*key, from.cast_signed(), until.cast_signed()]);
        self.with(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let found = statement.query_map(params_from_iter(values), |row| row.get::<_, i64>(0))?;
            found.map(|seq| seq.map(i64::cast_unsigned)).collect::<Result<Vec<u64>, _>>()
        })
        .map(Some)
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>) -> Result<T, JournalError> {
        let idle = self.idle.lock().pop();
        let done = idle.map_or_else(|| connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY), Ok).and_then(|db| Ok((work(&db)?, db)));
        match done {
            Ok((found, db)) => {
                let mut idle = self.idle.lock();
                if idle.len() < 2 {
                    idle.push(db);
                }
                Ok(found)
            }
            Err(error) => {
                let error = JournalError::db("read the index")(error);
                self.give_up(error.clone());
                Err(error)
            }
        }
    }
}

/// So many places are asked for at once, so that a reader who wants few of many does not pay for all.
pub(crate) const PLACES_MAX: usize = 1_000;

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW)?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.execute_batch("PRAGMA cache_size = -512; PRAGMA trusted_schema = OFF;")?;
    Ok(db)
}

/// The condition that the fewest records meet: how many, and the keys of it.
fn fewest(db: &Connection, filter: &Filter) -> Result<Option<(u64, Vec<i64>)>, rusqlite::Error> {
    let mut best: Option<(u64, Vec<i64>)> = None;
    let mut offer = |found: (u64, Vec<i64>)| {
        if best.as_ref().is_none_or(|(count, _)| found.0 < *count) {
            best = Some(found);
        }
    };
    if let Some(pid) = filter.pid {
        offer(named(db, &pid_key(pid))?);
    }
    if let Some(task) = &filter.task {
        offer(named(db, &task_key(task))?);
    }
    if !filter.kinds.is_empty() {
        let mut all = (0, Vec::new());
        let mut kinds = db.prepare_cached("SELECT id, name, count FROM key WHERE name >= 'kind ' AND name < 'kind!'")?;
        let mut rows = kinds.query([])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(1)?;
            if name.strip_prefix("kind ").is_some_and(|kind| filter.wants_kind(kind)) {
                all.0 += row.get::<_, i64>(2)?.cast_unsigned();
                all.1.push(row.get(0)?);
            }
        }
        offer(all);
    }
    Ok(best)
}

/// Where records of the filter's time can be. Times need not be in order.
fn spanned(db: &Connection, filter: &Filter) -> Result<(u64, u64), rusqlite::Error> {
    let mut spans = db.prepare_cached("SELECT min(first), max(after) FROM span WHERE latest_ms >= ?1 AND earliest_ms < ?2")?;
    let times = [filter.since_ms.unwrap_or(i64::MIN), filter.until_ms.unwrap_or(i64::MAX)];
    let place = |place: Option<i64>| place.unwrap_or_default().cast_unsigned();
    spans.query_row(times, |row| Ok((place(row.get(0)?), place(row.get(1)?))))
}

fn named(db: &Connection, name: &str) -> Result<(u64, Vec<i64>), rusqlite::Error> {
    let mut key = db.prepare_cached("SELECT id, count FROM key WHERE name = ?1")?;
    let found = key.query_row([name], |row| Ok((row.get::<_, i64>(1)?.cast_unsigned(), vec![row.get(0)?]))).optional()?;
    Ok(found.unwrap_or_default())
}

fn kind_key(kind: &str) -> String {
    format!("kind {kind}")
}

fn pid_key(pid: u64) -> String {
    format!("pid {pid}")
}

fn task_key(task: &str) -> String {
    format!("task {task}")
}
