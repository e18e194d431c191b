//! Leases: what a process may spend before its next requests are on record.
//!
//! A request that waits for the disk before it goes out has every busy disk in its first byte. So a part of what is left is set aside for
//! a process ahead of time, taken from its own budget and all above it. A request that is drawn from a lease on disk leaves at once,
//! while its own record is written. **Invariant.** What may have left without a record is never more than what is leased on disk; what of
//! that did leave is held when a world was folded from disk, and the rest goes back ([`super::crash`]).

use super::allot::View;
use super::{AMOUNT_MAX, CapExceeded, Need};
use crate::event::{BudgetLeased, BudgetReturned, ModelReserved};
use crate::{CallId, Event, Pid, TaskId, World};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Requests like the one that is made now that a lease holds: the next, and one beside it.
const REQUESTS: u64 = 2;
/// A lease takes at most this part of what is left under any cap, so that a crash costs little.
const PART: u64 = 8;

/// What is set aside for the requests of one process in one tier, and not yet drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The call that it was first carved with. A lease that ended is never meant again.
    pub id: CallId,
    pub tier: String,
    pub tokens: u64,
    pub micros: u64,
}

/// A request that wants to be paid for.
#[derive(Clone, Copy, Debug)]
pub struct ReservationRequest<'a> {
    pub pid: Pid,
    pub task: Option<TaskId>,
    pub call: CallId,
    pub provider: &'a str,
    pub model: &'a str,
    pub need: Need<'a>,
}

/// How a request is paid for.
#[derive(Clone, Debug, PartialEq)]
pub struct PaymentPlan {
    pub events: Vec<Event>,
    /// It is drawn from what is on disk already, so it need not wait for these events to be.
    pub ahead: bool,
    /// Can be drawn from once these events are on disk.
    pub share: Option<Share>,
}

/// A part of a lease that comes to be on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub pid: Pid,
    pub lease: CallId,
    pub tokens: u64,
    pub micros: u64,
}

/// What of the leases is on disk and not drawn. Lives as long as the kernel; nothing in it is a fact.
#[derive(Clone, Debug, Default)]
pub struct LeasePool {
    ready: HashMap<CallId, (u64, u64)>,
}

impl LeasePool {
    /// Takes what a request needs from its lease, or from the accounts, and sets something aside for the next. To be called under the
    /// lock that orders commits, with the world that these events are then applied to.
    pub fn plan(&mut self, world: &World, bid: &ReservationRequest<'_>, now_ms: i64) -> Result<PaymentPlan, CapExceeded> {
        let ReservationRequest { pid, need, .. } = *bid;
        // A lease is its process's, so a task's own cap is asked first.
        if let Some(short) = bid.task.and_then(|task| world.short_of_task(task, &need)) {
            return Err(short);
        }
        let lease = world.lease(pid, need.tier);
        if let Some(lease) = lease
            && world.short(pid, &Need { tokens: 0, micros: 0, ..need }, now_ms).is_none()
            && self.draw(lease.id, &need)
        {
            let left = (lease.tokens.saturating_sub(need.tokens), lease.micros.saturating_sub(need.micros));
            let (carved, share) = carve(world, bid, lease.id, left, (0, 0), now_ms).unzip();
            let events = [Some(reserved(bid, Some(lease.id))), carved].into_iter().flatten().collect();
            return Ok(PaymentPlan { events, ahead: true, share });
        }
        if world.short(pid, &need, now_ms).is_some() {
            let mut events = recalled(world, &need, pid, now_ms)?;
            events.push(reserved(bid, None));
            return Ok(PaymentPlan { events, ahead: false, share: None });
        }
        let (id, left) = lease.map_or((bid.call, (0, 0)), |lease| (lease.id, (lease.tokens, lease.micros)));
        let (carved, share) = carve(world, bid, id, left, (need.tokens, need.micros), now_ms).unzip();
        let events = [Some(reserved(bid, None)), carved].into_iter().flatten().collect();
        Ok(PaymentPlan { events, ahead: false, share })
    }

    /// A share is on disk now, and the lease may be drawn from if it is still there.
    pub fn add(&mut self, world: &World, share: Share) {
        if !world.leases().any(|(pid, lease)| pid == share.pid && lease.id == share.lease) {
            return;
        }
        if !self.ready.contains_key(&share.lease) {
            self.ready.retain(|id, _| world.leases().any(|(_, lease)| lease.id == *id));
        }
        let (tokens, micros) = self.ready.entry(share.lease).or_default();
        *tokens = tokens.saturating_add(share.tokens);
        *micros = micros.saturating_add(share.micros);
    }

    fn draw(&mut self, id: CallId, need: &Need<'_>) -> bool {
        let Some((tokens, micros)) = self.ready.get_mut(&id) else { return false };
        let (Some(less_tokens), Some(less_micros)) = (tokens.checked_sub(need.tokens), micros.checked_sub(need.micros)) else {
            return false;
        };
        (*tokens, *micros) = (less_tokens, less_micros);
        true
    }
}

/// Every lease, given back: the kernel comes to rest, and nothing is on its way.
pub fn returned(world: &World) -> Vec<Event> {
    world.leases().map(|(pid, lease)| give_back(pid, lease)).collect()
}

pub(super) fn give_back(pid: Pid, lease: &Lease) -> Event {
    let Lease { id, tokens, micros, .. } = *lease;
    BudgetReturned { pid, task: None, lease: id, tokens, micros }.into()
}

fn reserved(bid: &ReservationRequest<'_>, lease: Option<CallId>) -> Event {
    let ReservationRequest { pid, task, call, provider, model, need } = *bid;
    let (provider, model, tier) = (provider.to_owned(), model.to_owned(), need.tier.to_owned());
    ModelReserved { pid, task, call, provider, model, tier, tokens: need.tokens, micros: need.micros, lease }.into()
}

/// Nobody is refused for what others only might need: gives the leases back that are in the way, if that is enough.
fn recalled(world: &World, need: &Need<'_>, pid: Pid, now_ms: i64) -> Result<Vec<Event>, CapExceeded> {
    let still = world.shorts(pid, need, View { now_ms, leases: false });
    if let Some(short) = still.into_iter().min_by_key(|short| short.what.passes()) {
        return Err(short);
    }
    let short: Vec<Pid> = world.shorts(pid, need, View { now_ms, leases: true }).into_iter().map(|short| short.pid).collect();
    let in_the_way = world.leases().filter(|(pid, _)| world.lineage(*pid).iter().any(|of| short.contains(of)));
    Ok(in_the_way.map(|(pid, lease)| give_back(pid, lease)).collect())
}

/// What is set aside beside a request, when the lease could not pay for another one like it. `left` is in the lease after this request,
/// `taken` is taken from the accounts for it.
fn carve(
    world: &World,
    bid: &ReservationRequest<'_>,
    lease: CallId,
    left: (u64, u64),
    taken: (u64, u64),
    now_ms: i64,
) -> Option<(Event, Share)> {
    let ReservationRequest { pid, task, need, .. } = *bid;
    let covers = |have: (u64, u64)| have.0 >= need.tokens && have.1 >= need.micros;
    if covers(left) || need.tokens.max(need.micros) > AMOUNT_MAX / REQUESTS {
        return None;
    }
    let mut tokens = (need.tokens * REQUESTS).saturating_sub(left.0);
    let mut micros = (need.micros * REQUESTS).saturating_sub(left.1);
    let (left_tokens, left_micros) = world.left(pid, need.tier, Some(now_ms));
    tokens = tokens.min(left_tokens.saturating_sub(taken.0) / PART);
    micros = micros.min(left_micros.saturating_sub(taken.1) / PART);
    if !covers((left.0 + tokens, left.1 + micros)) {
        return None;
    }
    let event = BudgetLeased { pid, task, lease, tier: need.tier.to_owned(), tokens, micros };
    Some((event.into(), Share { pid, lease, tokens, micros }))
}
