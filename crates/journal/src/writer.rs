//! The writer: drains the queue, commits all of it with one fsync, seals, answers. It has a thread; late batches are also written by
//! whoever waits for them (`inline.rs`).
//!
//! **Invariant.** Records are written in the order of `append`. After a failed batch nothing is written until `recover`.

mod checkpoint;
mod inline;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{oneshot, watch};

use crate::body::{BodyChanges, BodyCipher};
use crate::chain::{Class, Genesis, Head, Prepared, Tip};
use crate::error::JournalError;
use crate::fault::{Faults, Point};
use crate::index::RecordIndex;
use crate::reserve::Reserve;
use crate::seal::Sealer;
use crate::store::{self, Store};
use crate::wal::WalSpace;

use checkpoint::Checkpoints;
pub(crate) use inline::LateWrite;

/// A record that nobody waits for is written at the latest after this; the promise is 500 ms.
const PROGRESS_DELAY: Duration = Duration::from_millis(200);
/// A record is sealed at the latest after this; the promise is 500 ms.
const SEAL_DELAY: Duration = Duration::from_millis(250);
/// One transaction takes no more than this, so that its pages stay in the cache and the reserve holds one.
pub(crate) const COMMIT_BYTES_MAX: usize = 1 << 20;
/// For commits up to this size the WAL is filled ahead.
const SMALL_COMMIT_BYTES: usize = 8 << 10;

pub(crate) enum WriterOrder {
    Batch(RecordBatch),
    Recover(SyncSender<Result<Head, JournalError>>),
    ReleaseMemory,
    Stop,
}

pub(crate) struct RecordBatch {
    pub records: Vec<Prepared>,
    /// What stands beside them.
    pub bodies: BodyChanges,
    pub class: Class,
    /// It is answered once it is written; a later sync covers it.
    pub is_late: bool,
    /// Absent where the ticket was resolved at once.
    pub answer: Option<oneshot::Sender<Result<(), JournalError>>>,
}

/// What appenders and the writer share.
pub(crate) struct Shared {
    pub appending: Mutex<AppendState>,
    /// Wakes the thread.
    pub ordered: Condvar,
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
    /// What is to be written or done, in order.
    pub queue: VecDeque<WriterOrder>,
    /// The thread has to look at the writer although nothing is in the queue.
    pub is_nudged: bool,
}

impl Shared {
    /// Gives the thread something to do.
    pub(crate) fn order(&self, appending: &mut AppendState, order: WriterOrder) {
        appending.queue.push_back(order);
        self.ordered.notify_one();
    }

    /// Sends the thread to the writer.
    fn nudge(&self) {
        self.appending.lock().is_nudged = true;
        self.ordered.notify_one();
    }

    /// Sleeps until there is something to do, or the time has come.
    fn await_order(&self, due: Option<Instant>) {
        let mut appending = self.appending.lock();
        while appending.queue.is_empty() && !std::mem::take(&mut appending.is_nudged) {
            match due {
                None => self.ordered.wait(&mut appending),
                Some(due) if self.ordered.wait_until(&mut appending, due).timed_out() => return,
                Some(_) => {}
            }
        }
    }
}

/// The writer, which its thread and whoever writes late batches take turns to use. Empty once the journal is closed.
pub(crate) type WriterSlot = Arc<Mutex<Option<Writer>>>;

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
    pub bodies: Arc<BodyCipher>,
    /// Why nothing is written any more, until `recover`.
    pub stopped: Option<JournalError>,
    pub commits: u64,
    pub wal: WalSpace,
    pub line: String,
    /// What is drained and not yet committed.
    pub pending: PendingCommit,
    /// Bytes of lines since the last complete checkpoint.
    pub wal_bytes: usize,
    /// Until then the thread writes everything: the disk makes whoever writes wait.
    pub slow_until: Option<Instant>,
}

impl Writer {
    pub(crate) fn spawn(self) -> Result<(JoinHandle<()>, WriterSlot), JournalError> {
        let (path, shared) = (self.store.path.clone(), self.shared.clone());
        let slot = Arc::new(Mutex::new(Some(self)));
        let own = slot.clone();
        let work = move || {
            // Also when this thread panics: nobody waits for a writer that is gone.
            let _gone = WriterGone { slot: &own, shared: &shared };
            run(&own, &shared);
        };
        let spawned = thread::Builder::new().name("journal".into()).spawn(work);
        Ok((spawned.map_err(JournalError::io("start the writer for", &path))?, slot))
    }

    /// Takes what is in the queue, as far as `takes` wants it and one commit holds it. Gives what is not a batch.
    fn drain(&mut self, takes: impl Fn(&WriterOrder) -> bool) -> Option<WriterOrder> {
        let mut appending = self.shared.appending.lock();
        while self.pending.bytes < COMMIT_BYTES_MAX && appending.queue.front().is_some_and(&takes) {
            match appending.queue.pop_front() {
                Some(WriterOrder::Batch(batch)) => self.pending.add(batch),
                other => return other,
            }
        }
        None
    }

    /// Commits what is pending.
    fn flush(&mut self) {
        self.wal_bytes += self.pending.bytes;
        let pending = std::mem::take(&mut self.pending);
        self.keep(pending);
    }

    /// One turn of the thread: commits and seals what is due, and gives the time of the next.
    fn turn(&mut self, is_told: bool, seal_due: &mut Option<Instant>, checkpoints: &mut Checkpoints) -> Option<Instant> {
        let now = Instant::now();
        let pending = &self.pending;
        if pending.urgent || is_told || pending.bytes >= COMMIT_BYTES_MAX || pending.due.is_some_and(|due| due <= now) {
            self.flush();
        }
        if !self.unsealed {
            *seal_due = None;
        } else if is_told || seal_due.is_some_and(|due| due <= now) {
            *seal_due = None;
            self.seal_late();
            checkpoints.idle(self);
        } else if seal_due.is_none() {
            *seal_due = Some(now + SEAL_DELAY);
        }
        checkpoints.busy(self);
        self.pending.due.into_iter().chain(*seal_due).min()
    }

    /// Commits the batches or fails them, and answers.
    fn keep(&mut self, pending: PendingCommit) {
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
                // After the answers: nobody waits for it but the next commit. A large one pays little for a longer file, a late one nothing.
                if pending_bytes <= SMALL_COMMIT_BYTES && !self.unsynced {
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
    fn commit_with_reserve(&mut self, pending: &PendingCommit) -> Result<Tip, JournalError> {
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

    fn commit(&mut self, pending: &PendingCommit) -> Result<Tip, JournalError> {
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

    fn insert(&mut self, pending: &PendingCommit) -> Result<Tip, rusqlite::Error> {
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
        for batch in &pending.batches {
            self.bodies.write(&self.db, &batch.bodies)?;
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

/// The thread: until it is told to stop.
fn run(slot: &Mutex<Option<Writer>>, shared: &Shared) {
    let mut checkpoints = Checkpoints::default();
    // The first turn says when the next is due.
    let (mut seal_due, mut due) = (None, Some(Instant::now()));
    loop {
        shared.await_order(due);
        let mut slot = slot.lock();
        let Some(writer) = slot.as_mut() else { break };
        let control = writer.drain(|_| true);
        due = writer.turn(control.is_some(), &mut seal_due, &mut checkpoints);
        match control {
            Some(WriterOrder::Stop) => break,
            Some(WriterOrder::Recover(answer)) => {
                // The asker may have gone; the journal is recovered all the same.
                let _ = answer.send(writer.recover());
            }
            Some(WriterOrder::ReleaseMemory) => store::release_memory(&writer.db),
            Some(WriterOrder::Batch(_)) | None => {}
        }
    }
    checkpoints.join();
}

/// The end of the thread, however it came.
struct WriterGone<'a> {
    slot: &'a Mutex<Option<Writer>>,
    shared: &'a Shared,
}

impl Drop for WriterGone<'_> {
    fn drop(&mut self) {
        let mut appending = self.shared.appending.lock();
        appending.stopped = Some(JournalError::Closed);
        // Tickets whose batch is dropped say that the journal is closed.
        let left = std::mem::take(&mut appending.queue);
        drop(appending);
        drop((left, self.slot.lock().take()));
    }
}

/// What is drained and not yet committed.
pub(crate) struct PendingCommit {
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

impl Default for PendingCommit {
    fn default() -> Self {
        Self { batches: Vec::new(), bytes: 0, class: Class::Progress, urgent: false, must_sync: false, due: None }
    }
}

impl PendingCommit {
    /// Whether a later sync is early enough for all of it. Progress alone has waited for its sync already.
    fn is_late(&self) -> bool {
        self.urgent && !self.must_sync
    }

    fn add(&mut self, batch: RecordBatch) {
        self.bytes += batch.records.iter().map(Prepared::len).sum::<usize>() + batch.bodies.len();
        self.class = self.class.max(batch.class);
        self.urgent |= batch.class != Class::Progress;
        self.must_sync |= batch.class != Class::Progress && !batch.is_late;
        self.due.get_or_insert_with(|| Instant::now() + PROGRESS_DELAY);
        self.batches.push(batch);
    }
}
