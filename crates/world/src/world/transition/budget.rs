//! Budgets, leases, and what requests to models cost.

use super::{CheckResult, Transition, alive, ensure, task_mut, unended};
use crate::event::{
    BudgetAsked, BudgetGranted, BudgetLeased, BudgetLost, BudgetReconciled, BudgetReturned, BudgetSet, BudgetWarned, ModelHeld,
    ModelReleased, ModelReserved, ModelUsed, ResourceAsked, ResourceGiven,
};
use crate::{CallId, CapExceeded, Held, Lease, Need, Pid, Reserved, World, limits};

impl Transition for BudgetSet {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        if self.task.is_some() { unended(world, self.task) } else { Ok(()) }
    }

    /// A new cap holds from now on, not from the end of what was set aside under the old one. With a task it is that task's, else its
    /// process's.
    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.budget.clone_from(&self.budget);
            return;
        }
        let under = |pid: &Pid| world.descends_from(*pid, self.pid);
        let below: Vec<Pid> = world.books.leases.keys().copied().filter(under).collect();
        below.into_iter().for_each(|pid| release(world, pid));
        // A person's word takes the place of what was allotted.
        world.return_allotment(self.pid);
        let account = world.books.accounts.entry(self.pid).or_default();
        account.budget = self.budget.clone();
        account.warned.clear();
    }
}

impl Transition for BudgetGranted {
    fn check(&self, world: &World) -> CheckResult {
        let account = world.books.accounts.get(&self.pid);
        ensure(account.is_some_and(|account| account.budget.is_some()), || format!("process {} has no budget", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let account = world.books.accounts.entry(self.pid).or_default();
        account.warned.clear();
        if let Some(budget) = &mut account.budget {
            self.more().amounts().for_each(|(what, amount)| budget.raise(&what, amount));
        }
    }
}

impl Transition for BudgetWarned {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.processes.contains_key(&self.pid), || format!("no process {}", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.books.accounts.entry(self.pid).or_default().warned.insert(self.what.clone());
    }
}

impl Transition for BudgetAsked {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.processes.contains_key(&self.of), || format!("no process {}", self.of))
    }
}

impl Transition for BudgetLeased {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        let other = world.lease(self.pid, &self.tier).filter(|lease| lease.id != self.lease);
        ensure(other.is_none(), || format!("process {} has another lease", self.pid))?;
        let (tokens, micros) = world.left(self.pid, &self.tier, None);
        ensure(self.tokens <= tokens && self.micros <= micros, || format!("there is less left than {} needs", self.lease))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let more = Lease { id: self.lease, tier: self.tier.clone(), tokens: self.tokens, micros: self.micros };
        let line = line(world, self.pid);
        world.books.carve(&line, self.pid, &more);
    }
}

impl Transition for BudgetReturned {
    fn check(&self, world: &World) -> CheckResult {
        lease_holds(world, self.pid, self.lease, (self.tokens, self.micros))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let line = line(world, self.pid);
        world.books.end_leases(&line, self.pid, |lease| lease.id == self.lease);
    }
}

impl Transition for BudgetLost {
    fn check(&self, world: &World) -> CheckResult {
        lease_holds(world, self.pid, self.lease, (self.tokens, self.micros))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let line = line(world, self.pid);
        world.books.lose_lease(&line, self.pid, self.lease, at_ms);
    }
}

impl Transition for BudgetReconciled {
    fn check(&self, world: &World) -> CheckResult {
        let (guessed, held) = (world.books.guessed(self.pid), world.books.held_of(self.pid));
        let open = |tier: &String| guessed.of(tier) > 0 || held.of(tier) > 0;
        let known = self.tokens.keys().all(open) && (self.micros.is_none() || guessed.micros > 0 || held.micros > 0);
        ensure(known, || format!("nothing like that of process {} is a guess", self.pid))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let line = line(world, self.pid);
        world.books.reconcile(&line, self.pid, &self.tokens, self.micros, at_ms);
    }
}

impl Transition for ModelReserved {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.calls.contains_key(&self.call), || format!("{} is not open", self.call))?;
        ensure(!world.books.reserved.contains_key(&self.call), || format!("{} has a reservation", self.call))?;
        let need = Need { tier: &self.tier, tokens: self.tokens, context: 0, micros: self.micros };
        let of_task = self.task.and_then(|task| world.short_of_task(task, &need));
        ensure(of_task.is_none(), || format!("the budget of its task does not hold {}", self.call))?;
        if let Some(id) = self.lease {
            let lease = world.lease(self.pid, &self.tier).filter(|lease| lease.id == id);
            let enough = lease.is_some_and(|lease| lease.tokens >= self.tokens && lease.micros >= self.micros);
            return ensure(enough, || format!("the lease {id} does not hold it"));
        }
        match world.short(self.pid, &need, world.now_ms) {
            Some(CapExceeded { what, pid, .. }) if !what.passes() => Err(format!("the {what} of process {pid} would be passed")),
            _ => Ok(()),
        }
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let (provider, model, tier) = (self.provider.clone(), self.model.clone(), self.tier.clone());
        let (pid, task, lease) = (self.pid, self.task, self.lease);
        let reserved = Reserved { pid, provider, model, tier, tokens: self.tokens, micros: self.micros, lease, task };
        let line = line(world, self.pid);
        if let Some(run) = world.processes.get_mut(&self.pid).and_then(|process| process.run.as_deref_mut()) {
            run.uses_gateway = true;
        }
        world.books.reserve(&line, self.call, reserved, at_ms);
    }
}

impl Transition for ModelUsed {
    fn check(&self, world: &World) -> CheckResult {
        let reserved = world.books.reserved.get(&self.call).ok_or_else(|| format!("{} has no reservation", self.call))?;
        let tokens = reserved.tokens.saturating_sub(self.charged_tokens);
        let micros = reserved.micros.saturating_sub(self.charged_micros);
        ensure(self.held_tokens <= tokens && self.held_micros <= micros, || format!("{} holds more than was reserved", self.call))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let line = line(world, self.pid);
        let (charged, held) = ((self.charged_tokens, self.charged_micros), (self.held_tokens, self.held_micros));
        world.books.settle(&line, self.call, charged, held, &self.figures, at_ms);
    }
}

impl Transition for ModelHeld {
    fn check(&self, world: &World) -> CheckResult {
        let enough = match self.lease {
            None => world.books.reserved.get(&self.call).map(|reserved| (reserved.tokens, reserved.micros)),
            Some(id) if self.call >= world.next_call() => {
                world.leases().find(|(pid, lease)| *pid == self.pid && lease.id == id).map(|(_, lease)| (lease.tokens, lease.micros))
            }
            Some(_) => return Err(format!("{} is on record", self.call)),
        };
        let fits = enough.is_some_and(|(tokens, micros)| self.tokens <= tokens && self.micros <= micros);
        ensure(fits, || format!("so much was never set aside for {}", self.call))
    }

    /// A request that was on its way when the kernel died: what was reserved for it, or what it drew from its lease, is held.
    fn apply(&self, world: &mut World, at_ms: i64) {
        let line = line(world, self.pid);
        let Some(lease) = self.lease else {
            return world.books.unsettled(&line, self.call, (self.tokens, self.micros), at_ms);
        };
        // Its number was given out, though no other record says so.
        world.last.call = world.last.call.max(self.call.0);
        let (provider, model, tier) = (self.provider.clone(), self.model.clone(), self.tier.clone());
        let (until_ms, day) = (at_ms + limits::HELD_MS, crate::budget::day(at_ms));
        let (pid, task) = (self.pid, self.task);
        let held = Held { pid, provider, model, tier, tokens: self.tokens, micros: self.micros, until_ms, day, task };
        world.books.hold_leased(&line, self.call, lease, held);
    }
}

impl Transition for ModelReleased {
    fn check(&self, world: &World) -> CheckResult {
        let reserved = world.books.reserved.get(&self.call).map(|reserved| (reserved.tokens, reserved.micros));
        let held = world.books.held.get(&self.call).map(|held| (held.tokens, held.micros));
        let (tokens, micros) = reserved.or(held).ok_or_else(|| format!("nothing is held for {}", self.call))?;
        ensure(self.tokens <= tokens && self.micros <= micros, || format!("less than that is held for {}", self.call))
    }

    /// Nobody counts it any more: it never left, its day is over, or somebody said what it was.
    fn apply(&self, world: &mut World, _at_ms: i64) {
        let line = line(world, self.pid);
        if world.books.reserved.contains_key(&self.call) {
            return world.books.unsettled(&line, self.call, (0, 0), 0);
        }
        world.books.release(&line, self.call, (self.tokens, self.micros));
    }
}

impl Transition for ResourceAsked {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        ensure(world.processes.contains_key(&self.of), || format!("no process {}", self.of))
    }
}

impl Transition for ResourceGiven {
    fn check(&self, world: &World) -> CheckResult {
        // The account of one who ended goes on for those it left.
        alive(world, self.pid).or_else(|why| ensure(world.has_heirs(self.pid), || why))?;
        world.check_given(self)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.give(self);
    }
}

/// What was set aside for a process is for everybody again.
pub(super) fn release(world: &mut World, pid: Pid) {
    let line = line(world, pid);
    world.books.end_leases(&line, pid, |_| true);
}

/// A call that ended without a word about its cost: what was reserved for it is spent.
pub(super) fn lose(world: &mut World, pid: Pid, call: CallId, at_ms: i64) {
    if world.books.reserved.contains_key(&call) {
        let line = line(world, pid);
        world.books.lose(&line, call, at_ms);
    }
}

/// A process and all above it, those that left it too.
fn line(world: &World, pid: Pid) -> Vec<Pid> {
    world.lineage(pid)
}

/// The lease has exactly this left.
fn lease_holds(world: &World, pid: Pid, id: CallId, left: (u64, u64)) -> CheckResult {
    let known = world.leases().find(|(of, lease)| *of == pid && lease.id == id).map(|(_, lease)| (lease.tokens, lease.micros));
    ensure(known == Some(left), || format!("the lease {id} of process {pid} has {known:?} left, not {left:?}"))
}
