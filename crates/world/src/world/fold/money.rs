//! What models cost: each event is entered in the books of a process and of all above it.

use crate::event::{
    BudgetGranted, BudgetLeased, BudgetLost, BudgetReconciled, BudgetReturned, BudgetSet, ModelHeld, ModelReleased, ModelReserved,
    ModelUsed,
};
use crate::{CallId, Held, Lease, Pid, Reserved, World, limits};

/// A new cap holds from now on, not from the end of what was set aside under the old one.
pub(super) fn set(world: &mut World, e: &BudgetSet) {
    let under = |pid: &Pid| world.line(*pid).any(|process| process.pid == e.pid);
    let below: Vec<Pid> = world.books.leases.keys().copied().filter(under).collect();
    below.into_iter().for_each(|pid| release(world, pid));
    let account = world.books.accounts.entry(e.pid).or_default();
    account.budget = e.budget.clone();
    account.warned.clear();
}

pub(super) fn grant(world: &mut World, e: &BudgetGranted) {
    let account = world.books.accounts.entry(e.pid).or_default();
    account.warned.clear();
    if let Some(budget) = &mut account.budget {
        budget.micros = budget.micros.map(|cap| cap.saturating_add(e.micros));
        for (tier, cap) in &mut budget.tokens {
            *cap = cap.saturating_add(e.tokens.get(tier).copied().unwrap_or(0));
        }
    }
}

pub(super) fn reserve(world: &mut World, e: &ModelReserved, at_ms: i64) {
    let (provider, model, tier) = (e.provider.clone(), e.model.clone(), e.tier.clone());
    let reserved = Reserved { pid: e.pid, provider, model, tier, tokens: e.tokens, micros: e.micros, lease: e.lease };
    let line = line(world, e.pid);
    world.books.reserve(&line, e.call, reserved, at_ms);
}

pub(super) fn settle(world: &mut World, e: &ModelUsed, at_ms: i64) {
    let line = line(world, e.pid);
    let (charged, held) = ((e.charged_tokens, e.charged_micros), (e.held_tokens, e.held_micros));
    world.books.settle(&line, e.call, charged, held, &e.figures, at_ms);
}

/// A request that was on its way when the kernel died: what was reserved for it, or what it drew from its lease, is held.
pub(super) fn hold(world: &mut World, e: &ModelHeld, at_ms: i64) {
    let line = line(world, e.pid);
    let Some(lease) = e.lease else {
        return world.books.unsettled(&line, e.call, (e.tokens, e.micros), at_ms);
    };
    // Its number was given out, though no other record says so.
    world.last.call = world.last.call.max(e.call.0);
    let (provider, model, tier) = (e.provider.clone(), e.model.clone(), e.tier.clone());
    let (until_ms, day) = (at_ms + limits::HELD_MS, crate::budget::day(at_ms));
    let held = Held { pid: e.pid, provider, model, tier, tokens: e.tokens, micros: e.micros, until_ms, day };
    world.books.hold_leased(&line, e.call, lease, held);
}

/// Nobody counts it any more: it never left, its day is over, or somebody said what it was.
pub(super) fn release_held(world: &mut World, e: &ModelReleased) {
    let line = line(world, e.pid);
    if world.books.reserved.contains_key(&e.call) {
        return world.books.unsettled(&line, e.call, (0, 0), 0);
    }
    world.books.release(&line, e.call, (e.tokens, e.micros));
}

/// A call that ended without a word about its cost: what was reserved for it is spent.
pub(super) fn lose(world: &mut World, pid: Pid, call: CallId, at_ms: i64) {
    if world.books.reserved.contains_key(&call) {
        let line = line(world, pid);
        world.books.lose(&line, call, at_ms);
    }
}

pub(super) fn lease(world: &mut World, e: &BudgetLeased) {
    let more = Lease { id: e.lease, tier: e.tier.clone(), tokens: e.tokens, micros: e.micros };
    let line = line(world, e.pid);
    world.books.carve(&line, e.pid, &more);
}

pub(super) fn give_back(world: &mut World, e: &BudgetReturned) {
    let line = line(world, e.pid);
    world.books.end_leases(&line, e.pid, |lease| lease.id == e.lease);
}

pub(super) fn lose_lease(world: &mut World, e: &BudgetLost, at_ms: i64) {
    let line = line(world, e.pid);
    world.books.lose_lease(&line, e.pid, e.lease, at_ms);
}

pub(super) fn reconcile(world: &mut World, e: &BudgetReconciled, at_ms: i64) {
    let line = line(world, e.pid);
    world.books.reconcile(&line, e.pid, &e.tokens, e.micros, at_ms);
}

/// What was set aside for a process is for everybody again.
pub(super) fn release(world: &mut World, pid: Pid) {
    let line = line(world, pid);
    world.books.end_leases(&line, pid, |_| true);
}

/// A process and all its ancestors.
fn line(world: &World, pid: Pid) -> Vec<Pid> {
    world.line(pid).map(|process| process.pid).collect()
}
