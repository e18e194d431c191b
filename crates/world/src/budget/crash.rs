//! What a crash may have cost: the requests that had left, and no more.
//!
//! Pure. **Invariant.** A request that may have left is held, whether its record is on disk or not; what was only reserved or leased goes
//! back. Where nobody knows what had left, everything that was set aside may have.

use super::UNRECORDED;
use super::lease::{self, Lease};
use crate::event::{ModelHeld, ModelReleased};
use crate::{CallId, Event, Pid, TaskId, World};
use serde::{Deserialize, Serialize};

const DIED: &str = "the kernel died while it was on its way";

/// A request that left, noted before it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flight {
    pub call: CallId,
    pub pid: Pid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub provider: String,
    pub model: String,
    pub tier: String,
    pub tokens: u64,
    pub micros: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<CallId>,
}

/// What is known of the requests that left before the kernel died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// These and no others.
    Known(Vec<Flight>),
    /// The machine went down, or another version was running.
    Unknown,
}

/// Settles everything that was reserved, leased or on its way when the kernel died.
pub fn settle(world: &World, left: &Left) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut leases = leases(world);
    for (call, reserved) in &world.books.reserved {
        let (call, pid, task) = (*call, reserved.pid, world.calls.get(call).and_then(|open| open.task));
        let (tokens, micros) = (reserved.tokens, reserved.micros);
        let may_have_left = match left {
            Left::Known(flights) => flights.iter().any(|flight| flight.call == call),
            Left::Unknown => true,
        };
        events.push(if may_have_left {
            let (provider, model, tier) = (reserved.provider.clone(), reserved.model.clone(), reserved.tier.clone());
            ModelHeld { pid, task, call, provider, model, tier, tokens, micros, lease: None, why: DIED.to_owned() }.into()
        } else {
            let of = |(pid, lease): &&mut (Pid, Lease)| *pid == reserved.pid && Some(lease.id) == reserved.lease;
            if let Some((_, lease)) = leases.iter_mut().find(of) {
                lease.tokens = lease.tokens.saturating_add(tokens);
                lease.micros = lease.micros.saturating_add(micros);
            }
            let why = "the kernel died before it left".to_owned();
            ModelReleased { pid, task, call, tokens, micros, why }.into()
        });
    }
    match left {
        Left::Known(flights) => events.extend(paid_from(leases, world, flights)),
        Left::Unknown => events.extend(whole_leases(world)),
    }
    events
}

/// Settles the requests that left while their records were still being written, and never came to be. The kernel lives, and so do the
/// others.
pub fn unrecorded(world: &World, flights: &[Flight]) -> Vec<Event> {
    paid_from(leases(world), world, flights)
}

fn leases(world: &World) -> Vec<(Pid, Lease)> {
    world.leases().map(|(pid, lease)| (pid, lease.clone())).collect()
}

/// What left no other record is paid from its lease; what is left of all leases goes back.
fn paid_from(mut left: Vec<(Pid, Lease)>, world: &World, flights: &[Flight]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut flights: Vec<&Flight> = flights.iter().filter(|flight| flight.call >= world.next_call()).collect();
    flights.sort_by_key(|flight| flight.call);
    for flight in flights {
        let of = |(pid, lease): &&mut (Pid, Lease)| *pid == flight.pid && Some(lease.id) == flight.lease;
        // INVARIANT: it was drawn from what is leased on disk, unless that has ended since, and then nothing is set aside for it.
        let Some((_, lease)) = left.iter_mut().find(of) else { continue };
        let (tokens, micros) = (flight.tokens.min(lease.tokens), flight.micros.min(lease.micros));
        lease.tokens -= tokens;
        lease.micros -= micros;
        let Flight { call, pid, provider, model, tier, .. } = flight.clone();
        // The task of a request that is not on record may not be there either.
        let task = flight.task.filter(|task| world.tasks.contains_key(task));
        events.push(ModelHeld { pid, task, call, provider, model, tier, tokens, micros, lease: flight.lease, why: DIED.to_owned() }.into());
    }
    events.extend(left.iter().map(|(pid, lease)| lease::give_back(*pid, lease)));
    events
}

fn whole_leases(world: &World) -> Vec<Event> {
    let mut events = Vec::new();
    for (nth, (pid, lease)) in (world.next_call().0..).zip(world.leases()) {
        let Lease { id, tier, tokens, micros } = lease.clone();
        let held = ModelHeld {
            pid,
            task: None,
            call: CallId(nth),
            provider: UNRECORDED.into(),
            model: "lease".into(),
            tier,
            tokens,
            micros,
            lease: Some(id),
            why: "the machine went down, and requests may have left without a record".to_owned(),
        };
        events.push(held.into());
        events.push(lease::give_back(pid, &Lease { tokens: 0, micros: 0, ..lease.clone() }));
    }
    events
}
