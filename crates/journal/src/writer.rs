//! The writer thread: drains the queue, commits all of it with one fsync, seals, answers.
//!
//! **Invariant.** Records are written in the order of `append`. After a failed batch nothing is written until `recover`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{oneshot, watch};

use crate::chain::{Class, Genesis, Head, Prepared, Tip};
use crate::error::JournalError;
use crate::fault::{Faults, Point};
use crate::index::RecordIndex;
use crate::reserve::Reserve;
use crate::seal::Sealer;
use crate::store::{self, Store};
use crate::wal::WalSpace;

/// A record that nobody waits for is written at the latest after this; the promise is 500 ms.
const PROGRESS_DELAY: Duration = Duration::from_millis(200);
/// A record is sealed at the latest after this; the promise is 500 ms.
const SEAL_DELAY: Duration = Duration::from_millis(250);
/// One transaction takes no more than this, so that its pages stay in the cache and the reserve holds one.
pub(crate) const COMMIT_BYTES_MAX: usize = 1 << 20;
/// For commits up to this size the WAL is filled ahead.
const SMALL_COMMIT_BYTES: usize = 8 << 10;
/// So many bytes of lines in the WAL are worth a checkpoint while busy.
const CHECKPOINT_BYTES: usize = 16 << 20;
/// And so many when nothing is waiting.
const IDLE_CHECKPOINT_BYTES: usize = 1 << 20;

pub(crate) enum WriterOrder {
    Batch(RecordBatch),
    Recover(SyncSender<Result<Head, JournalError>>),
    Stop,
}

pub(crate) struct RecordBatch {
    pub records: Vec<Prepared>,
    pub class: Class,
    /// It is answered once it is written; a later sync covers it.
    pub is_late: bool,
    /// Absent where the ticket was resolved at once.
    pub answer: Option<oneshot::Sender<Result<(), JournalError>>>,
}

/// What appenders and the writer share.
pub(crate) struct Shared {
    pub appending: Mutex<AppendState>,
    pub tip: Mutex<Tip>,
    pub durable: watch::Sender<u64>,
    /// The reserve is in use, or the disk is too full for one.
    pub is_low: AtomicBool,
    pub index: Arc<RecordIndex>,
    /// Commits that were synced since the journal was opened.
    pub syncs: AtomicU64,
}

/// The place of the next record, and whether there is one.
pub(crate) struct AppendState {
    pub next_seq: u64,
    pub stopped: Option<JournalError>,
    pub jobs: Sender<WriterOrder>,
}

pub(crate) struct Writer {
    pub store: Store,
    pub db: Connection,
    pub genesis: Genesis,
    pub tip: Tip,
    pub sealer: Sealer,
    /// Whether the chain has records that the seal does not cover.
    pub unsealed: bool,
    /// Whether it has records that no sync covers. They are sealed later, and a seal syncs them first.
    pub unsynced: bool,
    /// Whether the connection syncs what it commits.
    pub syncs: bool,
    pub reserve: Reserve,
    pub faults: Faults,
    pub shared: Arc<Shared>,
    /// Why nothing is written any more, until `recover`.
    pub stopped: Option<JournalError>,
    pub commits: u64,
    pub wal: WalSpace,
    pub line: String,
}

impl Writer {
    pub(crate) fn spawn(self, jobs: Receiver<WriterOrder>) -> Result<JoinHandle<()>, JournalError> {
        let path = self.store.path.clone();
        thread::Builder::new()
            .name("journal".into())
            .spawn(move || self.run(&jobs))
            .map_err(JournalError::io("start the writer for", &path))
    }

    fn run(mut self, jobs: &Receiver<WriterOrder>) {
        let mut checkpoints = Checkpoints::default();
        let mut pending = Pending::default();
        let mut seal_due = self.unsealed.then(|| Instant::now() + SEAL_DELAY);
        loop {
            let due = pending.due.into_iter().chain(seal_due).min();
            let mut job = match due {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            let mut control = None;
            loop {
                match job {
                    Ok(WriterOrder::Batch(batch)) => pending.add(batch),
                    Ok(other) => control = Some(other),
                    Err(RecvTimeoutError::Disconnected) => control = Some(WriterOrder::Stop),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if control.is_some() || pending.bytes >= COMMIT_BYTES_MAX {
                    break;
                }
                job = match jobs.try_recv() {
                    Ok(job) => Ok(job),
                    Err(_) => break,
                };
            }
            let now = Instant::now();
            if pending.urgent || control.is_some() || pending.bytes >= COMMIT_BYTES_MAX || pending.due.is_some_and(|due| due <= now) {
                checkpoints.bytes += pending.bytes;
                self.keep(std::mem::take(&mut pending));
            }
            if !self.unsealed {
                seal_due = None;
            } else if control.is_some() || seal_due.is_some_and(|due| due <= now) {
                seal_due = None;
                self.seal_late();
                checkpoints.idle(&self.db);
            } else if seal_due.is_none() {
                seal_due = Some(now + SEAL_DELAY);
            }
            checkpoints.busy(&self.store, &self.db);
            match control {
                Some(WriterOrder::Stop) => break,
                Some(WriterOrder::Recover(answer)) => {
                    // The asker may have gone; the journal is recovered all the same.
                    let _ = answer.send(self.recover());
                }
                _ => {}
            }
        }
        checkpoints.join();
    }

    /// Commits the batches or fails them, and answers.
    fn keep(&mut self, pending: Pending) {
        if pending.batches.is_empty() {
            return;
        }
        let (pending_bytes, had_unsynced) = (pending.bytes, self.unsynced);
        let result = match &self.stopped {
            Some(error) => Err(error.clone()),
            // Barriers alone: there is nothing to write, and at most something to sync.
            None if pending.bytes == 0 => self.sync().map(|()| self.tip),
            None => self.commit_with_reserve(&pending),
        };
        match result {
            Ok(tip) => {
                if pending_bytes > 0 {
                    self.tip = tip;
                    self.unsealed = pending.class != Class::Security;
                    self.unsynced = pending.is_late();
                    self.faults.pass(Point::BeforeAck, self.commits);
                }
                if !self.unsynced {
                    *self.shared.tip.lock() = tip;
                }
                for answer in pending.batches.into_iter().filter_map(|batch| batch.answer) {
                    let _ = answer.send(Ok(()));
                }
                if pending_bytes > 0 || had_unsynced {
                    self.tell_durable();
                }
                // After the answers: nobody waits for it but the next commit. A large one pays little for a longer file.
                if pending_bytes <= SMALL_COMMIT_BYTES {
                    self.wal.keep_ahead();
                }
            }
            Err(error) => {
                self.stop(&error);
                for answer in pending.batches.into_iter().filter_map(|batch| batch.answer) {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// Tells followers how far the journal is durable.
    fn tell_durable(&self) {
        if !self.unsynced {
            self.shared.durable.send_replace(self.tip.count.saturating_sub(1));
            self.shared.index.grown(self.tip.count);
        }
    }

    /// Syncs what was written without one. A commit that syncs does so for all that stands before it in the WAL.
    fn sync(&mut self) -> Result<(), JournalError> {
        if !self.unsynced {
            return Ok(());
        }
        if let Err(error) = self.mark_synced() {
            if !error.is_disk_full() {
                return Err(error);
            }
            // What was acknowledged may use the reserve.
            self.shared.is_low.store(true, Ordering::SeqCst);
            self.reserve.release();
            self.mark_synced()?;
        }
        self.unsynced = false;
        *self.shared.tip.lock() = self.tip;
        Ok(())
    }

    fn mark_synced(&mut self) -> Result<(), JournalError> {
        let marked = self.set_sync(true).and_then(|()| store::mark_synced(&self.db, self.tip.count));
        marked.map_err(|error| self.classify(error, 0))?;
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Has the connection sync its commits, or not. In a WAL, commits without a sync are whole or absent after a power cut.
    fn set_sync(&mut self, syncs: bool) -> Result<(), rusqlite::Error> {
        // The control of the power-loss test never syncs.
        if self.syncs != syncs && self.store.synchronous {
            let setting = if syncs { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" };
            self.db.prepare_cached(setting)?.execute([])?;
            self.syncs = syncs;
        }
        Ok(())
    }

    fn stop(&mut self, error: &JournalError) {
        self.stopped.get_or_insert_with(|| error.stopped());
        self.shared.appending.lock().stopped.get_or_insert_with(|| error.stopped());
    }

    /// Security events may use the reserve; the batches before them must come along, because the chain has one order.
    fn commit_with_reserve(&mut self, pending: &Pending) -> Result<Tip, JournalError> {
        match self.commit(pending) {
            Err(JournalError::DiskFull { .. }) if pending.class >= Class::Operator => {
                self.shared.is_low.store(true, Ordering::SeqCst);
                self.reserve.release();
                self.commit(pending)
            }
            Err(error @ JournalError::DiskFull { .. }) => {
                self.shared.is_low.store(true, Ordering::SeqCst);
                Err(error)
            }
            result => result,
        }
    }

    fn commit(&mut self, pending: &Pending) -> Result<Tip, JournalError> {
        self.commits += 1;
        self.faults.pass(Point::BeforeWrite, self.commits);
        self.pretend_full();
        let committed = self.set_sync(!pending.is_late()).and_then(|()| self.insert(pending));
        if committed.is_err() && !self.db.is_autocommit() {
            // What could not be committed must not linger in the next transaction.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        let records = pending.batches.iter().map(|batch| batch.records.len() as u64).sum();
        let tip = committed.map_err(|error| self.classify(error, records))?;
        if pending.class == Class::Security {
            self.sealer.seal(&tip)?;
        }
        Ok(tip)
    }

    fn insert(&mut self, pending: &Pending) -> Result<Tip, rusqlite::Error> {
        let mut tip = self.tip;
        let mut begin = self.db.prepare_cached("BEGIN IMMEDIATE")?;
        let mut insert = self.db.prepare_cached(store::INSERT)?;
        let mut commit = self.db.prepare_cached("COMMIT")?;
        begin.execute([])?;
        for record in pending.batches.iter().flat_map(|batch| &batch.records) {
            let seq = tip.count.cast_signed();
            record.write(&self.genesis, &mut tip, &mut self.line);
            let pid = record.pid.map(u64::cast_signed);
            insert.execute((seq, record.kind, record.at_ms, &record.session, pid, &record.task, &self.line))?;
        }
        self.faults.pass(Point::BeforeSync, self.commits);
        if self.faults.fail_at == Some(self.commits) {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
            return Err(rusqlite::Error::SqliteFailure(code, Some("a fault on purpose".into())));
        }
        commit.execute([])?;
        self.shared.syncs.fetch_add(u64::from(!pending.is_late()), Ordering::Relaxed);
        Ok(tip)
    }

    fn classify(&self, error: rusqlite::Error, records: u64) -> JournalError {
        let full = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => true,
            // A failed write or a failed growth of the shared memory file says only "IO error".
            Some(ErrorCode::SystemIoFailure) => self.store.disk_is_full(),
            _ => false,
        };
        let source = Arc::new(error);
        if full { JournalError::DiskFull { records, source } } else { JournalError::Database { what: "commit a batch", source } }
    }

    /// The fault `full_at`: no new pages while the reserve is held.
    fn pretend_full(&self) {
        if self.faults.full_at.is_some_and(|nth| self.commits >= nth) {
            let limit = if self.reserve.held() { "1" } else { "1000000" };
            // SQLite raises the limit to the present size by itself.
            let _ = self.db.query_row(&format!("PRAGMA max_page_count = {limit}"), [], |_| Ok(()));
        }
    }

    fn seal_late(&mut self) {
        let had_unsynced = self.unsynced;
        match self.sync().and_then(|()| self.sealer.seal(&self.tip)) {
            Ok(()) => self.unsealed = false,
            // A journal that can't be sealed can't promise anything about its next record.
            Err(error) => self.stop(&error),
        }
        if had_unsynced {
            self.tell_durable();
        }
    }

    /// Starts again from what is durable. The connection is new, because after a failed sync the old one's view is not.
    fn recover(&mut self) -> Result<Head, JournalError> {
        let (db, genesis) = self.store.open_writer()?;
        let tip = store::tip(&db, &genesis)?;
        let durable = self.shared.tip.lock().count;
        if tip.count < durable {
            let why = format!("it lost acknowledged records: {durable} were durable, {} are there", tip.count);
            return Err(JournalError::BadFile { path: self.store.path.clone(), why });
        }
        self.db = db;
        self.tip = tip;
        // What was not synced may be there all the same: then this covers it.
        self.syncs = true;
        self.sync()?;
        self.shared.is_low.store(!self.reserve.restore(), Ordering::SeqCst);
        self.sealer.seal(&tip)?;
        self.unsealed = false;
        *self.shared.tip.lock() = tip;
        self.shared.durable.send_replace(tip.count.saturating_sub(1));
        self.stopped = None;
        let mut appending = self.shared.appending.lock();
        appending.next_seq = tip.count;
        if !matches!(appending.stopped, Some(JournalError::Closed)) {
            appending.stopped = None;
        }
        Ok(tip.head())
    }
}

/// What is drained and not yet committed.
struct Pending {
    batches: Vec<RecordBatch>,
    bytes: usize,
    /// The strictest class among the batches.
    class: Class,
    urgent: bool,
    /// Somebody waits for a sync.
    must_sync: bool,
    /// When the oldest batch must be written.
    due: Option<Instant>,
}

impl Default for Pending {
    fn default() -> Self {
        Self { batches: Vec::new(), bytes: 0, class: Class::Progress, urgent: false, must_sync: false, due: None }
    }
}

impl Pending {
    /// Whether a later sync is early enough for all of it. Progress alone has waited for its sync already.
    fn is_late(&self) -> bool {
        self.urgent && !self.must_sync
    }

    fn add(&mut self, batch: RecordBatch) {
        self.bytes += batch.records.iter().map(Prepared::len).sum::<usize>();
        self.class = self.class.max(batch.class);
        self.urgent |= batch.class != Class::Progress;
        self.must_sync |= batch.class != Class::Progress && !batch.is_late;
        self.due.get_or_insert_with(|| Instant::now() + PROGRESS_DELAY);
        self.batches.push(batch);
    }
}

/// Checkpoints in two steps: a thread beside the writer copies most of the WAL, then the writer copies what came
/// meanwhile, so that the WAL starts again at its beginning and never grows for good.
#[derive(Default)]
struct Checkpoints {
    /// Bytes of lines since the last complete checkpoint.
    bytes: usize,
    beside: Option<(JoinHandle<()>, Receiver<()>)>,
}

impl Checkpoints {
    fn busy(&mut self, store: &Store, db: &Connection) {
        match &self.beside {
            Some((_, done)) if done.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) => {
                self.join();
                self.complete(db);
            }
            None if self.bytes >= CHECKPOINT_BYTES => {
                let (done, wait) = channel();
                let store = store.clone();
                let spawned = thread::Builder::new().name("checkpoint".into()).spawn(move || {
                    if let Ok(db) = store.open_checkpointer() {
                        checkpoint(&db);
                    }
                    let _ = done.send(());
                });
                self.beside = spawned.ok().map(|thread| (thread, wait));
            }
            _ => {}
        }
    }

    fn idle(&mut self, db: &Connection) {
        if self.beside.is_none() && self.bytes >= IDLE_CHECKPOINT_BYTES {
            self.complete(db);
        }
    }

    fn complete(&mut self, db: &Connection) {
        checkpoint(db);
        self.bytes = 0;
    }

    fn join(&mut self) {
        if let Some((thread, _)) = self.beside.take() {
            let _ = thread.join();
        }
    }
}

/// A checkpoint that fails leaves the WAL as it was; the next one tries again.
fn checkpoint(db: &Connection) {
    let _ = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}
