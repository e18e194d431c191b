//! The one place where the world changes.
//!
//! A commit reads the clock once, decides on the world as it is, orders the events in the journal and applies them, all under one
//! lock; so a budget cannot be spent twice nor a one-use grant used twice. **Invariant.** Nobody acts on a commit before its ticket is
//! durable, but a request to a model that is paid from a lease on disk. If a batch fails, the world is folded again from what is on disk;
//! and whenever that was done, the first commit holds what requests cost that had left and are not there.

mod bodies;
mod commit;
mod late;

use crate::aside;
use crate::clean;
use crate::fold::fold;
use crate::home::Home;
use crate::volume::{self, Volume};
use journal::{BodyChanges, Class, Draft, Filter, Finding, Journal, JournalError, Redactor, Snapshot};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use world::budget::crash::Flight;
use world::event::RecordsDropped;
use world::{CallId, Code, Event, Pid, Refusal, TaskId, Weight, World, exact_output, limits};
use world::{Fault, FaultKind};

pub use commit::{Pending, Unrecorded};
pub use late::Urgency;

/// When a process that flooded the journal may make calls again: its minute is over by then.
const FLOOD_WAIT: Duration = Duration::from_secs(60);

/// How many times as long as a snapshot took there is no other.
const SNAPSHOT_SPACING: u32 = 20;

pub struct Ledger {
    journal: Journal,
    /// Knows the secrets that no record may hold.
    pub redactor: Arc<Redactor>,
    state: Mutex<State>,
    /// Counts events that may change what a process sees or may do.
    rights: Arc<AtomicU64>,
    /// Who knows which requests may have left before their records were on disk.
    flights: OnceLock<Box<dyn Fn() -> Vec<Flight> + Send + Sync>>,
    /// The last to go: while there is a ledger, no other kernel opens its home.
    _home: Arc<Home>,
}

struct State {
    world: World,
    /// Counts failed batches, so that several losers of one batch heal once.
    generation: u64,
    /// A batch failed and the journal could not yet start again: the world is ahead of the disk.
    broken: bool,
    /// The kernel has stopped, and nothing follows its last record.
    closed: bool,
    /// The world was folded again, and requests may be on their way that are not there.
    folded: bool,
    since_snapshot: u64,
    /// No snapshot before that: they take little of the time, however large the world is.
    snapshot_not_before: Option<Instant>,
    volume: Volume,
    /// The journal is durable beyond every late commit once it has more records than this.
    late_until: Option<u64>,
    /// Late records that are written with the next commit, before it.
    held: Vec<Draft>,
    /// Bodies that come and go with the next commit.
    bodies: BodyChanges,
    rights: Arc<AtomicU64>,
}

/// Calls before the newest whose originals a crash may have left.
const LOOKED_BACK: u64 = 10_000;

/// Contents that are durable after [`Keeping::done`], and are not kept without it.
pub struct Keeping<'a>(journal::Batch<'a>);

impl Keeping<'_> {
    pub fn keep(&self, bytes: &[u8]) -> Result<String, Fault> {
        aside(|| self.0.put(bytes)).map_err(blob_fault)
    }

    pub fn done(self) -> Result<(), Fault> {
        aside(|| self.0.commit()).map_err(blob_fault)
    }
}

impl Ledger {
    /// Folds the journal from the snapshot that its opening found, and says what the fold found wrong with the chain on its way.
    pub fn open(
        home: Arc<Home>,
        journal: Journal,
        snapshot: Option<Snapshot>,
        redactor: Arc<Redactor>,
    ) -> Result<(Ledger, Vec<Finding>), Fault> {
        let (world, findings) = fold(&journal, snapshot)?;
        let bodies = bodies::left_over(&journal, &world)?;
        let rights = Arc::new(AtomicU64::new(0));
        let state = State {
            world,
            generation: 0,
            broken: false,
            closed: false,
            folded: false,
            since_snapshot: 0,
            snapshot_not_before: None,
            volume: Volume::default(),
            late_until: None,
            held: Vec::new(),
            bodies,
            rights: rights.clone(),
        };
        Ok((Ledger { journal, redactor, state: Mutex::new(state), rights, flights: OnceLock::new(), _home: home }, findings))
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Reads the present.
    pub fn look<T>(&self, read: impl FnOnce(&World) -> T) -> T {
        read(&self.state.lock().world)
    }

    /// Another number whenever something happened that may change what a process sees or may do.
    pub fn rights_version(&self) -> u64 {
        self.rights.load(Ordering::SeqCst)
    }

    /// Why a process that makes records faster than anybody could read them makes no call, and asks no model, for a while.
    pub fn flood_refusal(&self, pid: Pid) -> Option<Refusal> {
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let is_flooding = self.state.lock().volume.is_flooded_by(pid, now_ms);
        let reason = || format!("it made {} records within a minute", limits::RECORDS_BURST_MAX);
        is_flooding.then(|| Refusal::new(Code::Exhausted, reason()).hint("wait a minute").passes_after(FLOOD_WAIT))
    }

    /// What was counted and has no record yet.
    pub fn owed_counts(&self) -> Vec<Event> {
        self.state.lock().volume.owed_by_all()
    }

    /// Deletes the prompts of tasks that have ended, which a crash may have left.
    pub fn forget_ended_originals(&self) -> Result<(), Fault> {
        let ended = self.look(|world| {
            let tasks = world.tasks.values().filter(|task| task.state.ended());
            tasks.flat_map(originals).collect::<Vec<_>>()
        });
        ended.iter().try_for_each(|name| self.delete_original(name))?;
        if self.journal.vault().is_empty() {
            return Ok(());
        }
        // Of calls whose end is on disk and whose original was not deleted any more.
        let settled: Vec<CallId> = self.look(|world| {
            let last = world.next_call().0;
            (last.saturating_sub(LOOKED_BACK)..=last).map(CallId).filter(|call| !world.calls.contains_key(call)).collect()
        });
        settled.iter().try_for_each(|call| self.delete_original(call))
    }

    /// From here on every commit fails.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    /// `left` says from now on which requests have left and are not settled on record.
    pub fn watch_flights(&self, left: impl Fn() -> Vec<Flight> + Send + Sync + 'static) {
        self.flights.get_or_init(|| Box::new(left));
    }

    /// Takes the disk's reserve again if it was used up and there is space for it. `true` when that was done, so that brains can go on.
    pub fn restore_reserve(&self) -> bool {
        self.journal.is_low() && aside(|| self.journal.restore_reserve())
    }

    /// Records what events follow from the world, and waits for the disk.
    pub async fn record(&self, event: impl Into<Event>) -> Result<(), Fault> {
        let event = event.into();
        self.commit(|_, _| (vec![event], ()))?.durable().await
    }

    /// Records progress, unless the process makes too much of it: then it is dropped and counted.
    pub fn progress(&self, pid: Pid, task: Option<TaskId>, event: impl Into<Event>) -> Result<(), Fault> {
        let event = event.into();
        let pending = {
            let mut state = self.state.lock();
            let now_ms = jiff::Timestamp::now().as_millisecond().max(state.world.now_ms);
            let Some(dropped) = state.volume.admit_progress(pid, now_ms) else { return Ok(()) };
            let mut events = Vec::with_capacity(2);
            if dropped > 0 {
                events.push(RecordsDropped { pid, task, kind: event.kind().to_owned(), count: dropped }.into());
            }
            events.push(event);
            events
        };
        self.commit(|_, _| (pending, ())).map(drop)
    }

    /// What the limiter still owes the journal when a task ends.
    pub async fn flush_progress(&self, pid: Pid, task: Option<TaskId>) -> Result<(), Fault> {
        let dropped = self.state.lock().volume.take_progress(pid);
        if dropped == 0 {
            return Ok(());
        }
        self.record(RecordsDropped { pid, task, kind: "brain.said".into(), count: dropped }).await
    }

    pub fn read(&self, filter: &Filter) -> Result<Vec<journal::Record>, Fault> {
        if let Some(error) = self.journal.take_index_trouble() {
            world::log!("skep: records are looked up slowly until the next start: {error}");
        }
        aside(|| self.journal.read(filter)).map_err(fault)
    }

    /// Keeps content that a record will name, and gives its name.
    pub fn keep(&self, bytes: &[u8]) -> Result<String, Fault> {
        aside(|| self.journal.blobs().put(bytes)).map_err(blob_fault)
    }

    /// Content that is kept together, for much of it.
    pub fn keeping(&self) -> Keeping<'_> {
        Keeping(self.journal.blobs().batch())
    }

    /// The content that a record names.
    pub fn blob(&self, name: &str) -> Result<Vec<u8>, Fault> {
        aside(|| self.journal.blobs().get(name)).map_err(blob_fault)
    }

    /// Is the content that a record names still kept?
    pub fn has_blob(&self, name: &str) -> Result<bool, Fault> {
        aside(|| self.journal.blobs().has(name)).map_err(blob_fault)
    }

    /// The same, or `None` where it was forgotten or collected on record.
    pub fn blob_if_kept(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        match aside(|| self.journal.blobs().get(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(journal::BlobError::Forgotten { .. }) => Ok(None),
            Err(error) => Err(blob_fault(error)),
        }
    }

    /// Keeps the exact input of a call, or of a question, until it is settled.
    pub fn keep_original(&self, of: impl std::fmt::Display, bytes: &[u8]) -> Result<(), Fault> {
        aside(|| self.journal.vault().put(&of.to_string(), bytes)).map_err(fault)
    }

    /// Keeps what a step's call gave exactly, before it is on record that it did.
    pub fn keep_exact_output(&self, task: TaskId, step: &str, call: CallId, value: &serde_json::Value) -> Result<(), Fault> {
        let kept = serde_json::json!({ "call": call, "value": value }).to_string();
        aside(|| self.journal.vault().put_durably(&exact_output(task, step), kept.as_bytes())).map_err(fault)
    }

    /// Deletes the exact input of a call or a question, if it was kept.
    pub fn delete_original(&self, of: impl std::fmt::Display) -> Result<(), Fault> {
        let (vault, name) = (self.journal.vault(), of.to_string());
        if vault.has(&name) { aside(|| vault.delete(&name)).map(drop).map_err(fault) } else { Ok(()) }
    }

    /// Saves the world so that the next boot folds little. Called at rest and at a clean stop.
    pub fn snapshot(&self) -> Result<(), Fault> {
        let (world, barrier) = {
            let mut state = self.state.lock();
            state.since_snapshot = 0;
            state.write_held(&self.journal);
            // INVARIANT: under the lock nothing is appended, so the world is what the records before this barrier make of it.
            (state.world.clone(), self.journal.barrier())
        };
        aside(|| {
            let last = barrier.wait().map_err(fault)?.last_seq;
            if self.journal.head().count == 0 {
                return Ok(());
            }
            let bytes = serde_json::to_vec(&world).map_err(|error| Fault::new(FaultKind::Bug, "cannot write a snapshot", error))?;
            self.journal.save_snapshot(last, bytes).map_err(fault)
        })
    }

    fn snapshot_if_due(&self) {
        let began = Instant::now();
        {
            let mut state = self.state.lock();
            let is_due = state.since_snapshot >= limits::SNAPSHOT_EVERY && state.snapshot_not_before.is_none_or(|at| at <= began);
            if !is_due {
                return;
            }
            // Nobody else begins one meanwhile.
            state.since_snapshot = 0;
        }
        if let Err(fault) = self.snapshot() {
            // A snapshot only saves time; the journal has everything.
            world::log!("skep: no snapshot: {fault}");
        }
        self.state.lock().snapshot_not_before = Some(Instant::now() + began.elapsed() * SNAPSHOT_SPACING);
    }

    fn heal(&self, generation: u64, error: &JournalError) -> Fault {
        let mut state = self.state.lock();
        if state.generation == generation
            && let Err(second) = state.refold(&self.journal)
        {
            return second;
        }
        journal_fault(error)
    }
}

impl State {
    /// Checks, drafts and applies one event.
    fn take(&mut self, redactor: &Redactor, event: &Event, now_ms: i64, drafts: &mut Vec<Draft>) -> Result<(), Fault> {
        let (event, payload) = clean::clean(redactor, event)?;
        let event = &*event;
        self.world.check(event).map_err(|illegal| Fault::new(FaultKind::Bug, "an event was refused by the world", illegal))?;
        if !event.keeps_rights() {
            self.rights.fetch_add(1, Ordering::SeqCst);
        }
        self.world.apply(event, now_ms);
        drafts.push(Draft {
            kind: event.kind(),
            session: self.world.session(event.pid()),
            pid: Some(event.pid().0),
            task: event.task().map(|task| task.to_string()),
            payload,
            at_ms: now_ms,
            class: match event.weight() {
                Weight::Progress => Class::Progress,
                Weight::Fact if volume::must_wait(event) => Class::Fact,
                Weight::Fact => Class::Operator,
                Weight::Security => Class::Security,
            },
        });
        Ok(())
    }

    /// The originals that go with the end of their task.
    fn ends(&self, event: &Event) -> Vec<String> {
        if let Event::PlanAccepted(accepted) = event {
            // What steps of the plan before gave is nobody's input any more.
            let task = accepted.task.and_then(|task| self.world.tasks.get(&task));
            let outputs = |task: &world::Task| Some(task.session.as_deref()?.exact_outputs(task.id).collect());
            return task.and_then(outputs).unwrap_or_default();
        }
        let ended = matches!(event, Event::TaskFinished(_) | Event::TaskFailed(_) | Event::TaskCancelled(_));
        let task = event.task().filter(|_| ended).and_then(|task| self.world.tasks.get(&task));
        task.map(originals).unwrap_or_default()
    }

    /// Folds the world again after a failed batch. The one reading of the disk under the lock: until it is done there is no world to
    /// decide on.
    fn refold(&mut self, journal: &Journal) -> Result<(), Fault> {
        self.generation += 1;
        self.broken = true;
        self.write_held(journal);
        self.rights.fetch_add(1, Ordering::SeqCst);
        (self.world, _) = aside(|| {
            // A barrier: every batch that can still land has landed or failed when this answers.
            if journal.barrier().wait().is_err() {
                journal.recover().map_err(fault)?;
            }
            fold(journal, journal.snapshot().map_err(fault)?)
        })?;
        self.volume = Volume::default();
        self.folded = true;
        self.broken = false;
        Ok(())
    }
}

/// Names of what lies in the vault for a task: its prompts, and what its plans and their outputs are exactly.
fn originals(task: &world::Task) -> Vec<String> {
    let prompts = task.original.iter().chain(task.further.iter().filter_map(|further| further.original.as_ref())).cloned();
    prompts.chain(task.session.iter().flat_map(|session| session.originals(task.id))).collect()
}

/// A failure of the journal, told by its file.
pub fn fault(error: JournalError) -> Fault {
    journal_fault(&error)
}

fn journal_fault(error: &JournalError) -> Fault {
    if error.is_disk_full() {
        return disk_full(error);
    }
    Fault::new(FaultKind::Io, "the journal could not be written or read", error).remedy(world::Remedy::VerifyJournal)
}

fn disk_full(why: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::DiskFull, "nothing can be recorded", why)
        .fix("free some disk space; nothing was done, so the same command can be run again")
}

/// A failure to keep or read a blob.
pub fn blob_fault(error: journal::BlobError) -> Fault {
    match error {
        journal::BlobError::Journal(error) => journal_fault(&error),
        error => Fault::new(FaultKind::Io, "a blob could not be kept or read", error),
    }
}
