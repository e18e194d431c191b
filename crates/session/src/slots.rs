//! Places for rooms, of all sessions together.
//!
//! **Invariant.** No more rooms of sessions have a program at work in them than the limits say. Who is next is for `workflow` to say; this tells them, and tells those who
//! must make place.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use workflow::{MemoryUse, Preemption, RoomClaim, SlotLimits, SlotQueue, SlotTicket};

/// What whoever asked for a room is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotOrder {
    Wait,
    Run,
    /// Freeze what runs, and say so with [`RoomSlot::suspend`].
    Pause,
    /// End what runs, and leave.
    End,
}

/// The rooms of all sessions.
#[derive(Debug)]
pub struct RoomSlots {
    began: Instant,
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    queue: SlotQueue,
    orders: HashMap<SlotTicket, watch::Sender<SlotOrder>>,
}

impl Default for RoomSlots {
    fn default() -> RoomSlots {
        RoomSlots::new(SlotLimits::default())
    }
}

impl RoomSlots {
    pub fn new(limits: SlotLimits) -> RoomSlots {
        RoomSlots { began: Instant::now(), state: Mutex::new(SlotState { queue: SlotQueue::new(limits), orders: HashMap::new() }) }
    }

    /// Limits that hold from now on.
    pub fn set_limits(&self, limits: SlotLimits) {
        let mut state = self.state.lock();
        state.queue.set_limits(limits);
        state.tell(self.now_ms());
    }

    /// Rooms that work now, and requests for one that wait.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.queue.running(), state.queue.waiting())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits for a room. Dropping the future gives the place in the line up.
    pub(crate) async fn room(self: &Arc<RoomSlots>, request: RoomClaim) -> RoomSlot {
        let mut slot = {
            let now_ms = self.now_ms();
            let mut state = self.state.lock();
            let ticket = state.queue.enter(request, now_ms);
            let (tell, orders) = watch::channel(SlotOrder::Wait);
            state.orders.insert(ticket, tell);
            state.tell(now_ms);
            RoomSlot { slots: self.clone(), ticket, orders }
        };
        slot.granted().await;
        slot
    }
}

impl SlotState {
    /// Tells those whose turn it is, and who must make place for one of higher priority.
    fn tell(&mut self, now_ms: u64) {
        for ticket in self.queue.grant(now_ms) {
            self.order(ticket, SlotOrder::Run);
        }
        if self.queue.waiting() > 0
            && let Some(call) = self.queue.preempt(now_ms, memory())
        {
            match call.act {
                Preemption::Wait => {}
                Preemption::Pause => self.order(call.victim, SlotOrder::Pause),
                Preemption::Destroy => self.order(call.victim, SlotOrder::End),
            }
        }
    }

    fn order(&self, ticket: SlotTicket, order: SlotOrder) {
        if let Some(tell) = self.orders.get(&ticket) {
            tell.send_replace(order);
        }
    }
}

/// A room that a step may use, until this is dropped.
#[derive(Debug)]
pub(crate) struct RoomSlot {
    slots: Arc<RoomSlots>,
    ticket: SlotTicket,
    orders: watch::Receiver<SlotOrder>,
}

impl RoomSlot {
    /// Comes back when it is its turn.
    pub async fn granted(&mut self) {
        // The other side goes with this one.
        let _ = self.orders.wait_for(|order| *order == SlotOrder::Run).await;
    }

    /// Comes back when it has to make place.
    pub async fn displaced(&mut self) -> SlotOrder {
        let told = self.orders.wait_for(|order| matches!(order, SlotOrder::Pause | SlotOrder::End)).await.map(|order| *order);
        match told {
            Ok(order) => order,
            Err(_) => std::future::pending().await,
        }
    }

    /// What it ran is frozen: it waits in line again.
    pub fn suspend(&self) {
        let now_ms = self.slots.now_ms();
        let mut state = self.slots.state.lock();
        state.order(self.ticket, SlotOrder::Wait);
        state.queue.suspend(self.ticket, now_ms);
        state.tell(now_ms);
    }
}

impl Drop for RoomSlot {
    fn drop(&mut self) {
        let now_ms = self.slots.now_ms();
        let mut state = self.slots.state.lock();
        state.queue.leave(self.ticket);
        state.orders.remove(&self.ticket);
        state.tell(now_ms);
    }
}

/// Memory of the machine. Where nobody can tell, none is short.
fn memory() -> MemoryUse {
    let none = MemoryUse { used: 0, total: 1 };
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else { return none };
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    match (field("MemTotal"), field("MemAvailable")) {
        (Some(total), Some(available)) => MemoryUse { used: total.saturating_sub(available), total },
        _ => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::TaskId;

    fn wish(session: u64, priority: u8) -> RoomClaim {
        RoomClaim { session: TaskId(session), template: "default".to_owned(), priority, time_ms_max: 60_000 }
    }

    #[tokio::test]
    async fn four_rooms_work_at_once_and_a_place_goes_to_the_next() {
        let slots = Arc::new(RoomSlots::default());
        let mut held = Vec::new();
        for session in 1..=4 {
            held.push(slots.room(wish(session, 3)).await);
        }
        let fifth = tokio::spawn({
            let slots = slots.clone();
            async move { slots.room(wish(5, 3)).await }
        });
        while slots.counts() != (4, 1) {
            tokio::task::yield_now().await;
        }
        assert!(!fifth.is_finished(), "there is no place for it");
        held.pop();
        let fifth = fifth.await.unwrap();
        assert_eq!(slots.counts(), (4, 0));
        drop((held, fifth));
        assert_eq!(slots.counts(), (0, 0));
    }

    #[tokio::test]
    async fn who_does_not_want_to_wait_any_more_holds_up_nobody() {
        let slots = Arc::new(RoomSlots::new(SlotLimits { slots_max: 1, ..SlotLimits::default() }));
        let first = slots.room(wish(1, 3)).await;
        let second = tokio::spawn({
            let slots = slots.clone();
            async move { slots.room(wish(2, 3)).await }
        });
        while slots.counts() != (1, 1) {
            tokio::task::yield_now().await;
        }
        second.abort();
        assert!(second.await.is_err());
        assert_eq!(slots.counts(), (1, 0));
        drop(first);
        drop(slots.room(wish(3, 3)).await);
    }

    #[tokio::test]
    async fn one_of_higher_priority_has_a_lower_one_paused_which_goes_on_afterwards() {
        let slots = Arc::new(RoomSlots::new(SlotLimits { slots_max: 1, ..SlotLimits::default() }));
        let mut low = slots.room(wish(1, 5)).await;
        let high = tokio::spawn({
            let slots = slots.clone();
            async move { slots.room(wish(2, 1)).await }
        });
        assert!(matches!(low.displaced().await, SlotOrder::Pause | SlotOrder::End));
        low.suspend();
        let high = high.await.unwrap();
        assert_eq!(slots.counts(), (1, 1));
        drop(high);
        low.granted().await;
        assert_eq!(slots.counts(), (1, 0));
    }
}
