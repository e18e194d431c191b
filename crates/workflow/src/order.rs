//! Whose turn it is: steps of all sessions share the places where something can run.
//!
//! Priority 1 is the highest, 5 the lowest. Who waits is lifted by one level each time that [`SlotLimits::age_ms`] has passed, to 2 at most: what the system needs (1) stays before
//! everything else and is never lifted. Among equals the session that has fewest places comes first, then the one that was served longest ago, then who came first; within a
//! session it is always who came first.
//!
//! **Invariant.** Never more run than there are places, in all and for each template. Pure: whoever asks says what time it is.

use crate::preempt::{MemoryUse, PreemptibleWork, Preemption, choose_victim, judge_preemption};
use std::collections::{BTreeMap, VecDeque};
use world::TaskId;

/// The highest and the lowest priority.
pub const PRIORITY_HIGHEST: u8 = 1;
pub const PRIORITY_LOWEST: u8 = 5;
/// What waiting lifts to at most.
const PRIORITY_AGED: u8 = 2;

/// Sessions of which it is remembered when they were served.
const SERVED_MAX: usize = 1_024;

/// How many may run at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotLimits {
    pub slots_max: usize,
    /// By the template of the rooms that they run in; one that is not named has the limit of all.
    pub per_template: BTreeMap<String, usize>,
    /// The time after which who waits is lifted by a level.
    pub age_ms: u64,
}

impl Default for SlotLimits {
    /// Seed 003: four at once; a minute is longer than most steps take.
    fn default() -> SlotLimits {
        SlotLimits { slots_max: 4, per_template: BTreeMap::new(), age_ms: 60_000 }
    }
}

/// Somebody who wants a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomClaim {
    pub session: TaskId,
    pub template: String,
    pub priority: u8,
    /// The time that it may take once it runs.
    pub time_ms_max: u64,
}

/// The number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotTicket(pub u64);

/// What is to be done so that somebody of higher priority need not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionCall {
    pub claimant: SlotTicket,
    pub victim: SlotTicket,
    pub act: Preemption,
}

/// Requests that wait and requests that run.
#[derive(Clone, Debug, Default)]
pub struct SlotQueue {
    limits: SlotLimits,
    next: u64,
    /// Each in the order in which they came. What waits for one template does not hold up the others.
    lanes: BTreeMap<Lane, VecDeque<Waiting>>,
    running: BTreeMap<SlotTicket, Running>,
    /// The turn at which each session was served last.
    served: BTreeMap<TaskId, u64>,
    turn: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    session: TaskId,
    priority: u8,
    template: String,
}

#[derive(Clone, Debug)]
struct Waiting {
    ticket: SlotTicket,
    since_ms: u64,
    time_ms_max: u64,
}

#[derive(Clone, Debug)]
struct Running {
    lane: Lane,
    /// Since when it waited, for when it must wait again.
    asked_ms: u64,
    since_ms: u64,
    time_ms_max: u64,
    /// It was told to make place.
    is_leaving: bool,
}

impl SlotQueue {
    pub fn new(limits: SlotLimits) -> SlotQueue {
        SlotQueue { limits, ..SlotQueue::default() }
    }

    /// Limits that hold from now on. What runs goes on.
    pub fn set_limits(&mut self, limits: SlotLimits) {
        self.limits = limits;
    }

    /// Somebody gets in line.
    pub fn enter(&mut self, request: RoomClaim, now_ms: u64) -> SlotTicket {
        let ticket = SlotTicket(self.next);
        self.next += 1;
        let RoomClaim { session, template, priority, time_ms_max } = request;
        let lane = Lane { session, priority: priority.clamp(PRIORITY_HIGHEST, PRIORITY_LOWEST), template };
        self.lanes.entry(lane).or_default().push_back(Waiting { ticket, since_ms: now_ms, time_ms_max });
        ticket
    }

    /// Whose turn it is now, in order; they run from here on.
    pub fn grant(&mut self, now_ms: u64) -> Vec<SlotTicket> {
        let mut granted = Vec::new();
        while self.running.len() < self.limits.slots_max.max(1)
            && let Some(lane) = self.best(now_ms, |lane| self.has_room(&lane.template))
            && let Some(waiting) = self.take_first(&lane)
        {
            self.turn += 1;
            self.served.insert(lane.session, self.turn);
            self.forget_idle();
            let Waiting { ticket, since_ms: asked_ms, time_ms_max } = waiting;
            self.running.insert(ticket, Running { lane, asked_ms, since_ms: now_ms, time_ms_max, is_leaving: false });
            granted.push(ticket);
        }
        granted
    }

    /// Somebody has ended, or does not want to wait any more.
    pub fn leave(&mut self, ticket: SlotTicket) {
        if self.running.remove(&ticket).is_some() {
            return;
        }
        self.lanes.retain(|_, waiting| {
            waiting.retain(|one| one.ticket != ticket);
            !waiting.is_empty()
        });
    }

    /// Somebody who ran was paused: it waits again, before all others of its lane, and is granted again under the same ticket.
    pub fn suspend(&mut self, ticket: SlotTicket, now_ms: u64) {
        let Some(running) = self.running.remove(&ticket) else { return };
        let used_ms = now_ms.saturating_sub(running.since_ms);
        let time_ms_max = running.time_ms_max.saturating_sub(used_ms);
        self.lanes.entry(running.lane).or_default().push_front(Waiting { ticket, since_ms: running.asked_ms, time_ms_max });
    }

    /// A session has ended, with all that it asked for.
    pub fn forget(&mut self, session: TaskId) {
        self.lanes.retain(|lane, _| lane.session != session);
        self.running.retain(|_, running| running.lane.session != session);
        self.served.remove(&session);
    }

    /// Who has to make place for somebody of higher priority that waits for one, and how. One at a time: the next one is named when this one has left.
    pub fn preempt(&mut self, now_ms: u64, memory: MemoryUse) -> Option<PreemptionCall> {
        if self.running.values().any(|running| running.is_leaving) {
            return None;
        }
        let is_full = self.running.len() >= self.limits.slots_max.max(1);
        // Waiting lifts nobody here: who was patient gets the next place, not somebody else's.
        let blocked = self.lanes.iter().filter(|(lane, _)| is_full || !self.has_room(&lane.template));
        let first = |(lane, waiting): (&Lane, &VecDeque<Waiting>)| {
            waiting.front().map(|first| (lane.priority, first.since_ms, first.ticket, lane.clone()))
        };
        let (_, _, claimant, lane) = blocked.filter_map(first).min()?;
        // Where only its template is full, another template's place is of no use.
        let is_of_use = |running: &Running| is_full && self.has_room(&lane.template) || running.lane.template == lane.template;
        let work: Vec<PreemptibleWork> =
            self.running.iter().filter(|(_, running)| is_of_use(running)).map(|(ticket, running)| running.work(*ticket, now_ms)).collect();
        let victim = choose_victim(lane.priority, &work)?;
        let act = judge_preemption(victim, memory);
        let ticket = victim.ticket;
        if act != Preemption::Wait
            && let Some(running) = self.running.get_mut(&ticket)
        {
            running.is_leaving = true;
        }
        Some(PreemptionCall { claimant, victim: ticket, act })
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn waiting(&self) -> usize {
        self.lanes.values().map(VecDeque::len).sum()
    }

    /// Forgets when sessions were served that ended long ago. A session that comes again after so many turns counts as not served yet, which is no different: it is the one that
    /// was served longest ago.
    fn forget_idle(&mut self) {
        if self.served.len() > SERVED_MAX {
            let oldest = self.turn.saturating_sub(SERVED_MAX as u64 / 2);
            self.served.retain(|_, turn| *turn > oldest);
        }
    }

    /// The lane whose first one comes next, of those that may.
    fn best(&self, now_ms: u64, may: impl Fn(&Lane) -> bool) -> Option<Lane> {
        let mut places: BTreeMap<TaskId, usize> = BTreeMap::new();
        for running in self.running.values() {
            *places.entry(running.lane.session).or_default() += 1;
        }
        let rank = |(lane, waiting): (&Lane, &VecDeque<Waiting>)| {
            let first = waiting.front()?;
            let priority = effective_priority(lane.priority, now_ms.saturating_sub(first.since_ms), self.limits.age_ms);
            let places = places.get(&lane.session).copied().unwrap_or(0);
            let served = self.served.get(&lane.session).copied().unwrap_or(0);
            Some(((priority, places, served, first.since_ms, first.ticket), lane.clone()))
        };
        self.lanes.iter().filter(|(lane, _)| may(lane)).filter_map(rank).min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, lane)| lane)
    }

    fn has_room(&self, template: &str) -> bool {
        let Some(max) = self.limits.per_template.get(template) else { return true };
        // A limit of nothing would have them wait for ever.
        self.running.values().filter(|running| running.lane.template == template).count() < (*max).max(1)
    }

    fn take_first(&mut self, lane: &Lane) -> Option<Waiting> {
        let waiting = self.lanes.get_mut(lane)?;
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.lanes.remove(lane);
        }
        first
    }
}

impl Running {
    fn work(&self, ticket: SlotTicket, now_ms: u64) -> PreemptibleWork {
        PreemptibleWork {
            ticket,
            priority: self.lane.priority,
            elapsed_ms: now_ms.saturating_sub(self.since_ms),
            time_ms_max: self.time_ms_max,
        }
    }
}

/// The priority of who has waited so long.
pub fn effective_priority(priority: u8, waited_ms: u64, age_ms: u64) -> u8 {
    let priority = priority.clamp(PRIORITY_HIGHEST, PRIORITY_LOWEST);
    if priority <= PRIORITY_AGED {
        return priority;
    }
    let levels = u8::try_from(waited_ms / age_ms.max(1)).unwrap_or(u8::MAX);
    priority.saturating_sub(levels).max(PRIORITY_AGED)
}

#[cfg(test)]
mod tests;
