//! The journal's handle: open, append, and what hangs on it.

mod memory;

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use ed25519_dalek::SigningKey;
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::blob::Blobs;
use crate::body::{self, BodyChanges, BodyCipher};
use crate::chain::{Class, Draft, Genesis, Head, Prepared, Tip};
use crate::error::JournalError;
use crate::evidence;
use crate::fault::Faults;
use crate::files;
use crate::gather;
use crate::index::{self, RecordIndex};
use crate::read::{self, Filter, ReadConnections, Record};
use crate::reserve::Reserve;
use crate::seal::{self, Sealer, Slots};
use crate::slices::StoredLine;
use crate::snapshot::{self, Snapshot};
use crate::store::{self, Store};
use crate::ticket::{Receipt, Ticket};
use crate::vault::Vault;
use crate::verify::{self, Checker, Examination, Finding, Flaw, Names, Report};
use crate::wal::WalSpace;
use crate::writer::{AppendState, LateWrite, PendingCommit, RecordBatch, Shared, Writer, WriterOrder, WriterSlot};

/// So many records after the seal are checked at open; more than half a second never holds.
const UNSEALED_CHECK_MAX: u64 = 100_000;

/// How to open a journal. The default is right outside tests.
#[derive(Debug, Clone)]
pub struct Options {
    /// Disk kept back for security events.
    pub reserve_bytes: u64,
    /// Which blobs records name, for verification.
    pub names: Names,
    /// Faults for crash tests.
    pub faults: Faults,
    /// The SQLite VFS to open the database with; the power-loss test brings its own.
    pub vfs: Option<String>,
    /// The index goes on when so many records are not in it.
    pub index_step: u64,
    /// Only for the control of the power-loss test: acknowledges what is not on disk, and so loses it.
    pub unsafe_no_sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reserve_bytes: 8 << 20,
            names: verify::no_names,
            faults: Faults::default(),
            vfs: None,
            index_step: index::STEP,
            unsafe_no_sync: false,
        }
    }
}

/// What `open` found.
#[derive(Debug)]
pub struct Opened {
    pub head: Head,
    pub snapshot: Option<Snapshot>,
    /// Records after the sealed head, for the caller to record; they are sealed from now on.
    pub unsealed: u64,
    /// What is not as it was written: reported and kept, never deleted.
    pub findings: Vec<Finding>,
}

/// A handle on the journal; clones share one writer. The last one dropped flushes, seals and closes.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    home: PathBuf,
    store: Store,
    genesis: Genesis,
    /// The head when this journal was opened.
    opened_with: Tip,
    names: Names,
    key: SigningKey,
    shared: Arc<Shared>,
    readers: ReadConnections,
    blobs: Blobs,
    bodies: Arc<BodyCipher>,
    vault: Vault,
    reserve: Reserve,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// What that thread writes with, for who waits for a late batch.
    writer_slot: WriterSlot,
    /// Held as long as the journal is open: one writer per chain.
    _lock: fs::File,
}

impl Journal {
    /// Opens the journal in `home`, and makes it where there is none.
    pub fn open(home: &Path, options: Options) -> Result<(Self, Opened), JournalError> {
        files::private_dir(home)?;
        let lock = lock(home)?;
        let keys = home.join("keys");
        files::private_dir(&keys)?;
        files::sweep(home);
        files::sweep(&keys);
        let reserve = Reserve::new(home, options.reserve_bytes);
        // The database makes files of its own before it can be read.
        let is_released = reserve.release_if_full();
        let store = Store { vfs: options.vfs, synchronous: !options.unsafe_no_sync, ..Store::at(home) };
        let (mut db, genesis) = store.open_writer()?;
        let (key, key_is_new) = seal::signing_key(&keys)?;
        let slots = seal::read(home, &key.verifying_key())?;
        // INVARIANT: before anything is folded; what no kernel wrote never counts.
        let taken_out = evidence::take_out(home, &mut db, &genesis, &slots)?;
        let tip = store::tip(&db, &genesis)?;
        let is_new = key_is_new && tip.count == 0 && matches!(slots, Slots::Missing);
        let (unsealed, mut findings) = if is_new { (0, Vec::new()) } else { examine(home, &db, &genesis, &tip, &slots)? };
        let is_resealed = is_new || !findings.is_empty();
        findings.extend(taken_out);
        for name in store::foreign_schema(&db)? {
            let why = format!("`{name}` is not as the journal made it");
            findings.push(Finding { seq: None, what: Flaw::ForeignSchema, why });
        }
        let mut sealer = Sealer::open(home, key.clone(), &genesis)?;
        // A fresh journal is sealed at once, and so is what is left of one whose seal is evidence now.
        if is_resealed {
            sealer.seal(&tip)?;
        }
        let (snapshot, bad) = snapshot::load(home, &key.verifying_key(), &genesis, &db)?;
        findings.extend(bad);
        let is_low = is_released || !reserve.hold();

        let shared = Arc::new(Shared {
            appending: Mutex::new(AppendState { next_seq: tip.count, stopped: None, queue: VecDeque::new(), is_nudged: false }),
            ordered: Condvar::new(),
            tip: Mutex::new(tip),
            durable: watch::Sender::new(tip.count.saturating_sub(1)),
            is_low: AtomicBool::new(is_low),
            syncs: AtomicU64::new(0),
            index: RecordIndex::new(home, store.clone(), genesis, options.index_step),
        });
        shared.index.grown(tip.count);
        let bodies = Arc::new(BodyCipher::open(&keys)?);
        let opened = Opened { head: tip.head(), snapshot, unsealed, findings };
        let writer = Writer {
            store: store.clone(),
            db,
            genesis,
            tip,
            sealer,
            unsealed: unsealed > 0,
            unsynced: false,
            syncs: true,
            reserve: Reserve::new(home, options.reserve_bytes),
            faults: options.faults,
            shared: shared.clone(),
            bodies: bodies.clone(),
            stopped: None,
            commits: 0,
            wal: WalSpace::of(&store.path),
            line: String::new(),
            pending: PendingCommit::default(),
            wal_bytes: 0,
            slow_until: None,
        };
        let (writer, writer_slot) = writer.spawn()?;
        let inner = Inner {
            home: home.to_owned(),
            readers: ReadConnections::new(store.clone()),
            blobs: Blobs::open(home)?,
            bodies,
            vault: Vault::open(home)?,
            store,
            genesis,
            opened_with: tip,
            names: options.names,
            key,
            shared,
            reserve,
            writer: Mutex::new(Some(writer)),
            writer_slot,
            _lock: lock,
        };
        Ok((Self(Arc::new(inner)), opened))
    }

    /// Appends one batch, all of it or nothing. Does no IO; the order of calls is the order of records.
    pub fn append(&self, batch: Vec<Draft>) -> Ticket {
        self.append_at(batch, BodyChanges::default(), false)
    }

    /// The same with bodies that come and go with it.
    pub fn append_with(&self, batch: Vec<Draft>, bodies: BodyChanges) -> Ticket {
        self.append_at(batch, bodies, false)
    }

    /// The bodies under these numbers, as far as they are there and durable.
    pub fn bodies(&self, ids: &[u64]) -> Result<Vec<Option<Vec<u8>>>, JournalError> {
        let path = &self.0.store.path;
        self.0.readers.with(|db| ids.iter().map(|id| self.0.bodies.read(db, *id, path)).collect())
    }

    /// The numbers of all bodies.
    pub fn body_ids(&self) -> Result<Vec<u64>, JournalError> {
        self.0.readers.with(body::ids)
    }

    /// The same, and its ticket resolves when the batch is written: it outlives this process, but maybe no power cut in the next 500 ms.
    /// It stands before every later record, and is durable with the first of them that is.
    pub fn append_late(&self, batch: Vec<Draft>) -> Ticket {
        self.append_at(batch, BodyChanges::default(), true)
    }

    fn append_at(&self, batch: Vec<Draft>, bodies: BodyChanges, is_late: bool) -> Ticket {
        assert!(!batch.is_empty(), "an empty batch has no place in the chain");
        let class = batch.iter().map(|draft| draft.class).max().unwrap_or(Class::Fact);
        assert!(!is_late || class < Class::Security, "a security event is never late");
        let records: Vec<Prepared> = batch.into_iter().map(Prepared::new).collect();
        let count = records.len() as u64;
        let mut appending = self.0.shared.appending.lock();
        if let Some(error) = &appending.stopped {
            return Ticket::known(Err(error.clone()));
        }
        let place = Receipt { first_seq: appending.next_seq, last_seq: appending.next_seq + count - 1 };
        appending.next_seq += count;
        if class == Class::Progress {
            let batch = RecordBatch { records, bodies, class, is_late, answer: None };
            self.0.shared.order(&mut appending, WriterOrder::Batch(batch));
            return Ticket::known(Ok(place));
        }
        self.await_batch(&mut appending, place, RecordBatch { records, bodies, class, is_late, answer: None })
    }

    /// Puts a batch into the queue that somebody waits for: that one writes it if it is late, and the thread otherwise.
    fn await_batch(&self, appending: &mut AppendState, place: Receipt, batch: RecordBatch) -> Ticket {
        let Inner { shared, writer_slot, .. } = &*self.0;
        let (answer, wait) = oneshot::channel();
        let is_late = batch.is_late;
        let order = WriterOrder::Batch(RecordBatch { answer: Some(answer), ..batch });
        if is_late {
            appending.queue.push_back(order);
            return Ticket::late(place, wait, LateWrite::new(shared.clone(), writer_slot.clone()));
        }
        shared.order(appending, order);
        Ticket::waiting(place, wait)
    }

    /// A ticket that is durable when everything appended before it is; it adds no record.
    pub fn barrier(&self) -> Ticket {
        let mut appending = self.0.shared.appending.lock();
        if let Some(error) = &appending.stopped {
            return Ticket::known(Err(error.clone()));
        }
        let last = appending.next_seq.saturating_sub(1);
        let barrier = RecordBatch { records: Vec::new(), bodies: BodyChanges::default(), class: Class::Fact, is_late: false, answer: None };
        self.await_batch(&mut appending, Receipt { first_seq: last, last_seq: last }, barrier)
    }

    /// The newest snapshot that is signed, bound to this chain and not ahead of it.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, JournalError> {
        let key = self.0.key.verifying_key();
        self.0.readers.with(|db| snapshot::load(&self.0.home, &key, &self.0.genesis, db)).map(|(snapshot, _)| snapshot)
    }

    /// The durable head.
    pub fn head(&self) -> Head {
        self.0.shared.tip.lock().head()
    }

    /// The durable seq, for tails. It is 0 both before and after the first record.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.shared.durable.subscribe()
    }

    /// Durable records that match, in order of seq (or against it, with `reverse`). Never blocks the writer.
    pub fn read(&self, filter: &Filter) -> Result<Vec<Record>, JournalError> {
        let mut records = Vec::new();
        self.visit(filter, |record| {
            records.push(record);
            ControlFlow::Continue(())
        })?;
        Ok(records)
    }

    /// The same one by one, for whoever needs little of many, until `visit` has enough.
    pub fn visit(&self, filter: &Filter, mut visit: impl FnMut(Record) -> ControlFlow<()>) -> Result<(), JournalError> {
        self.0.readers.with(|db| read::select(db, &self.0.shared.index, filter, &mut visit))
    }

    /// Hands what `make` makes of the records that match, on any thread and out of turn, to `take`: some at a time, in the filter's order,
    /// until it has enough. For many records; the filter's limit is not looked at.
    pub fn gather<M: Send>(
        &self,
        filter: &Filter,
        make: impl Fn(Record) -> Option<M> + Sync,
        mut take: impl FnMut(Vec<M>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        let Inner { store, shared, readers, .. } = &*self.0;
        readers.with(|db| gather::gather(store, db, &shared.index, filter, &make, &mut take))
    }

    /// Streams all records from `from_seq` in constant memory and checks the chain on the way; returns what was wrong. `make` sees one line,
    /// on any thread and out of turn; `take` gets what it made of each, in order.
    pub fn replay<M: Send>(
        &self,
        from_seq: u64,
        make: impl Fn(&StoredLine<'_>) -> M + Sync,
        mut take: impl FnMut(M) -> ControlFlow<()>,
    ) -> Result<Vec<Finding>, JournalError> {
        let Inner { store, genesis, .. } = &*self.0;
        let mut checker = match from_seq {
            0 => Checker::new(*genesis, None),
            _ => Checker::from(*genesis, from_seq),
        };
        self.0.readers.with(|db| read::replay(store, db, &mut checker, &make, &mut take))?;
        Ok(checker.findings)
    }

    /// Writes the stored lines that match, verbatim, each with a newline; returns how many.
    pub fn export(&self, out: &mut dyn std::io::Write, filter: &Filter) -> Result<u64, JournalError> {
        self.0.readers.with(|db| read::export(db, &self.0.shared.index, filter, out, &self.0.store.path))
    }

    /// Keeps the world as it was after the durable record `seq`.
    pub fn save_snapshot(&self, seq: u64, bytes: Vec<u8>) -> Result<(), JournalError> {
        let tip = *self.0.shared.tip.lock();
        let line = if seq < tip.count { self.0.readers.with(|db| store::line_hash(db, seq))? } else { None };
        let line = line.ok_or(JournalError::NotDurable { seq, head: tip.head().seq })?;
        snapshot::save(&self.0.home, &self.0.key, &self.0.genesis, line, &Snapshot { seq, bytes })
    }

    /// So many commits were synced since it was opened.
    pub fn syncs(&self) -> u64 {
        self.0.shared.syncs.load(Ordering::Relaxed)
    }

    /// So many records are in the index.
    pub fn indexed(&self) -> u64 {
        self.0.shared.index.reach()
    }

    /// Why questions about records are answered by scans until the journal is opened again. Told once.
    pub fn take_index_trouble(&self) -> Option<JournalError> {
        self.0.shared.index.take_trouble()
    }

    /// After a failed batch: accepts records again, from the durable head. Until then every append fails.
    pub fn recover(&self) -> Result<Head, JournalError> {
        let (answer, wait) = sync_channel(1);
        {
            let mut appending = self.0.shared.appending.lock();
            if matches!(appending.stopped, Some(JournalError::Closed)) {
                return Err(JournalError::Closed);
            }
            self.0.shared.order(&mut appending, WriterOrder::Recover(answer));
        }
        wait.recv().map_err(|_| JournalError::Closed)?
    }

    /// Verifies the whole journal beside the running writer.
    pub fn verify(&self) -> Result<Report, JournalError> {
        self.verify_telling(&|_| {})
    }

    /// The same, and `at` hears from time to time how many records were checked.
    pub fn verify_telling(&self, at: &dyn Fn(u64)) -> Result<Report, JournalError> {
        verify::verify_store(&self.0.home, &self.0.store, self.0.names, at)
    }

    /// What every start should look at beside its work: the whole chain up to the head that was found then.
    pub fn examination(&self) -> Examination {
        let Inner { home, store, genesis, opened_with: head, names, .. } = &*self.0;
        Examination { home: home.clone(), store: store.clone(), genesis: *genesis, head: *head, names: *names }
    }

    /// Whether the disk reserve is there. Without it the next full disk loses security events too.
    pub fn has_reserve(&self) -> bool {
        self.0.reserve.held()
    }

    /// Whether the disk is so full that its reserve is in use or could not be had: only what may use it should be appended.
    pub fn is_low(&self) -> bool {
        self.0.shared.is_low.load(Ordering::SeqCst)
    }

    /// Takes the reserve again if the disk has the space; says whether it is there.
    pub fn restore_reserve(&self) -> bool {
        let restored = self.0.reserve.restore();
        if restored {
            self.0.shared.is_low.store(false, Ordering::SeqCst);
        }
        restored
    }

    pub fn blobs(&self) -> &Blobs {
        &self.0.blobs
    }

    pub fn vault(&self) -> &Vault {
        &self.0.vault
    }

    /// Flushes, seals and ends the writer. Other handles get `Closed` from now on.
    pub fn close(self) {
        self.0.close();
    }
}

impl Inner {
    fn close(&self) {
        {
            let mut appending = self.shared.appending.lock();
            appending.stopped = Some(JournalError::Closed);
            self.shared.order(&mut appending, WriterOrder::Stop);
        }
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
        self.shared.index.close();
        self.readers.close();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

fn lock(home: &Path) -> Result<fs::File, JournalError> {
    let path = home.join("journal.lock");
    let file = files::create_private(&path).map_err(JournalError::io("open", &path))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(JournalError::Locked { home: home.to_owned() }),
        Err(error) => Err(JournalError::io("lock", &path)(error.into())),
    }
}

/// Compares head and seal and walks what is not sealed. A seal that contradicts the journal is moved aside as evidence,
/// because the next seal takes its place; from then on every verification names it.
fn examine(home: &Path, db: &Connection, genesis: &Genesis, tip: &Tip, slots: &Slots) -> Result<(u64, Vec<Finding>), JournalError> {
    let sealed_count = match slots {
        Slots::Sealed(seal) => seal.count,
        _ => 0,
    };
    let sealed_line = match sealed_count.checked_sub(1) {
        Some(seq) => store::line_hash(db, seq)?,
        None => None,
    };
    let (_, unsealed, finding) = verify::judge(slots, genesis, tip, sealed_line);
    let mut findings: Vec<Finding> = finding.into_iter().collect();
    if findings.is_empty() && (1..=UNSEALED_CHECK_MAX).contains(&unsealed) {
        let from = sealed_line.map(|hash| Tip { count: sealed_count, hash });
        let mut checker = Checker::new(*genesis, from);
        verify::walk(db, &mut checker, None, &|| true)?;
        findings.extend(checker.findings);
    }
    if !findings.is_empty() {
        let text: String = findings.iter().map(|finding| format!("{}: {}\n", finding.what, finding.why)).collect();
        files::replace(&evidence::place(home, "finding")?, &[text.as_bytes()])?;
        for slot in seal::slot_paths(home) {
            match fs::rename(&slot, evidence::place(home, "seal")?) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(JournalError::io("move aside", &slot)(error)),
            }
        }
    }
    Ok((unsealed, findings))
}
