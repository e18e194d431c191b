//! One commit: decided under the lock, applied, handed to the journal; then the wait for the disk.

use super::bodies;
use super::{Ledger, State, Urgency, disk_full};
use crate::volume;
use journal::{BodyChanges, Draft, Ticket};
use parking_lot::MutexGuard;
use world::budget::crash;
use world::{Event, Fault, FaultKind, World};

/// A decision whose events are ordered and applied, and not yet known to be on disk.
#[must_use = "a commit counts only once it is durable"]
pub struct Pending<'a, T> {
    ledger: &'a Ledger,
    value: T,
    recorded: Recorded,
}

impl<T> Pending<'_, T> {
    /// Waits for the disk. Before this is `Ok`, nothing has happened.
    pub async fn durable(self) -> Result<T, Fault> {
        self.ledger.written(self.recorded).await?;
        Ok(self.value)
    }

    pub fn value(&self) -> &T {
        &self.value
    }

    /// For what a lease on disk pays.
    pub fn ahead(self) -> (T, Unrecorded) {
        (self.value, Unrecorded { ticket: self.recorded.ticket, generation: self.recorded.generation })
    }
}

/// The wait for a commit that somebody acts on already.
#[must_use = "nothing may be told of it before it is durable"]
pub struct Unrecorded {
    ticket: Option<Ticket>,
    generation: u64,
}

/// The lock, held, and a world that can be decided on.
struct OpenCommit<'a> {
    state: MutexGuard<'a, State>,
    now_ms: i64,
    /// What must be recorded before anything that is decided now.
    drafts: Vec<Draft>,
}

/// What the journal was handed.
struct Recorded {
    /// `None` while it is held for the next commit.
    ticket: Option<Ticket>,
    generation: u64,
    /// Originals in the vault that nobody needs once this is on disk.
    settled: Vec<String>,
}

impl Ledger {
    /// Decides and records in one step. `decide` gets the world and the time, and returns what happened.
    pub fn commit<T>(&self, decide: impl FnOnce(&World, i64) -> (Vec<Event>, T)) -> Result<Pending<'_, T>, Fault> {
        self.commit_late(|world, now_ms| (decide(world, now_ms), Urgency::Synced))
    }

    /// The same for what may be late, if `decide` says so. Only events that [`Event::may_be_late`] names are.
    pub fn commit_late<T>(&self, decide: impl FnOnce(&World, i64) -> ((Vec<Event>, T), Urgency)) -> Result<Pending<'_, T>, Fault> {
        // A hundred callers have a `decide` of their own; what is before and behind it is compiled once.
        let open = self.open_commit()?;
        let ((events, value), urgency) = decide(&open.state.world, open.now_ms);
        let recorded = self.record_decided(open, events, urgency)?;
        Ok(Pending { ledger: self, value, recorded })
    }

    /// Takes the lock, with a world that can be decided on.
    fn open_commit(&self) -> Result<OpenCommit<'_>, Fault> {
        // Before the lock, for it asks the disk.
        self.restore_reserve();
        let mut state = self.state.lock();
        if state.closed {
            return Err(Fault::new(FaultKind::Stopping, "nothing is recorded any more", "the kernel has stopped"));
        }
        if state.broken {
            state.refold(&self.journal)?;
        }
        let now_ms = jiff::Timestamp::now().as_millisecond().max(state.world.now_ms);
        let mut drafts = Vec::new();
        if std::mem::take(&mut state.folded) {
            let left = self.flights.get().map(|left| left()).unwrap_or_default();
            for event in crash::unrecorded(&state.world, &left) {
                state.take(&self.redactor, &event, now_ms, &mut drafts)?;
            }
        }
        Ok(OpenCommit { state, now_ms, drafts })
    }

    /// Applies what was decided and hands it to the journal.
    fn record_decided(&self, open: OpenCommit<'_>, events: Vec<Event>, urgency: Urgency) -> Result<Recorded, Fault> {
        let OpenCommit { mut state, now_ms, mut drafts } = open;
        let (mut settled, mut bodies) = (Vec::new(), BodyChanges::default());
        // On a full disk nothing is late: what the operator does may use the reserve, and that is synced.
        let is_late = urgency != Urgency::Synced && drafts.is_empty() && !self.journal.is_low() && events.iter().all(Event::may_be_late);
        drafts.reserve(events.len());
        if self.journal.is_low() && volume::must_all_wait(&events) {
            return Err(disk_full("the reserve is kept for the operator and for what must not be lost"));
        }
        let mut has_counts = false;
        for event in events {
            let State { volume, world, .. } = &mut *state;
            let mut counted = volume.admit(world, &event, now_ms);
            has_counts |= !counted.due.is_empty();
            let recorded = if counted.is_dropped { None } else { Some(event) };
            for event in counted.due.drain(..).chain(recorded) {
                settled.extend(state.ends(&event));
                let touched = bodies::touched(&state.world, &event);
                if let Err(fault) = state.take(&self.redactor, &event, now_ms, &mut drafts) {
                    state.refold(&self.journal)?;
                    return Err(fault);
                }
                bodies::change(&state.world, event, touched, &mut bodies);
            }
        }
        state.since_snapshot += drafts.len() as u64;
        state.held.append(&mut drafts);
        state.bodies.append(bodies);
        let generation = state.generation;
        let is_late = is_late && !has_counts;
        let ticket = (!is_late || urgency != Urgency::Held).then(|| state.append_held(&self.journal, is_late));
        Ok(Recorded { ticket, generation, settled })
    }

    /// Can this still come to be on disk?
    pub fn stands(&self, unrecorded: &Unrecorded) -> bool {
        let state = self.state.lock();
        state.generation == unrecorded.generation && !state.broken
    }

    /// Waits for the disk.
    pub async fn recorded(&self, Unrecorded { ticket, generation }: Unrecorded) -> Result<(), Fault> {
        self.written(Recorded { ticket, generation, settled: Vec::new() }).await
    }

    async fn written(&self, Recorded { ticket, generation, settled }: Recorded) -> Result<(), Fault> {
        if let Some(ticket) = ticket
            && let Err(error) = ticket.durable().await
        {
            return Err(self.heal(generation, &error));
        }
        for name in &settled {
            if let Err(error) = self.delete_original(name) {
                world::log!("skep: an original was not deleted, the next start tries again: {error}");
            }
        }
        self.snapshot_if_due();
        Ok(())
    }
}
