//! Requests blocked on the operator's approval.
//!
//! **Invariant.** A request is on the list exactly while its client waits: it leaves the list when it is admitted, when it gives up, or when
//! its client disconnects. So the list is not recorded; after a crash it is empty until a client asks again.

use crate::Models;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::Notify;
use world::event::BudgetAsked;
use world::{AtCap, CapExceeded, Pid, ReviewId, ReviewState, TaskId, World};

/// A request that does not fit under a cap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub pid: Pid,
    pub task: Option<TaskId>,
    tier: String,
    short: CapExceeded,
}

impl Wait {
    pub(crate) fn new(pid: Pid, task: Option<TaskId>, tier: &str, short: CapExceeded) -> Wait {
        Wait { pid, task, tier: tier.to_owned(), short }
    }

    /// Whose cap it is.
    pub fn of(&self) -> Pid {
        self.short.pid
    }

    pub fn what(&self) -> String {
        self.short.what.to_string()
    }

    /// What lets it go on.
    pub fn remedy(&self) -> world::Remedy {
        self.short.remedy()
    }

    pub(crate) fn asked(&self) -> BudgetAsked {
        let CapExceeded { pid: of, what, cap, used, need, .. } = &self.short;
        BudgetAsked { pid: self.pid, task: self.task, of: *of, what: what.to_string(), cap: *cap, used: *used, need: *need }
    }

    /// Is there room for it now, or nobody to be asked any more? Leases are given back to whoever needs them.
    fn over(&self, world: &World) -> bool {
        let Some(account) = world.books.accounts.get(&self.of()) else { return true };
        if account.budget.as_ref().is_none_or(|budget| budget.at_cap != AtCap::Ask) {
            return true;
        }
        world.room(self.of(), self.pid, &self.short.what, world.now_ms).is_none_or(|room| self.short.need <= room)
    }
}

/// All that wait for more of a budget.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<(u64, BTreeMap<u64, Wait>)>>, Arc<Notify>);

/// A place on the list.
pub(crate) struct WaitEntry {
    wait: Wait,
    nth: u64,
    list: Waiting,
}

impl Waiting {
    pub fn enter(&self, wait: Wait) -> WaitEntry {
        let mut list = self.0.lock();
        list.0 += 1;
        let nth = list.0;
        list.1.insert(nth, wait.clone());
        self.1.notify_one();
        WaitEntry { wait, nth, list: self.clone() }
    }

    pub fn all(&self) -> Vec<Wait> {
        self.0.lock().1.values().cloned().collect()
    }
}

impl Drop for WaitEntry {
    fn drop(&mut self) {
        self.list.0.lock().1.remove(&self.nth);
    }
}

pub(crate) enum Waited {
    Review(ReviewId),
    Budget(WaitEntry),
}

impl Waited {
    /// Waits for the person, or until whoever asks was cancelled and may not go on; `false` when the time is up first.
    pub async fn over(&self, models: &Models, (pid, task): (Pid, Option<TaskId>), deadline: Instant) -> bool {
        let mut follow = models.ledger.journal().follow();
        let answered = || {
            models.ledger.look(|world| {
                let is_cancelled = !world.processes.get(&pid).is_some_and(|process| process.state.alive())
                    || task.and_then(|task| world.tasks.get(&task)).is_some_and(|task| task.state.ended());
                is_cancelled
                    || match self {
                        Waited::Review(id) => world.reviews.get(id).is_none_or(|review| review.state != ReviewState::Open),
                        Waited::Budget(place) => place.wait.over(world),
                    }
            })
        };
        while !answered() {
            match tokio::time::timeout_at(deadline.into(), follow.changed()).await {
                Ok(Ok(())) if !models.stopping.load(Ordering::SeqCst) => {}
                _ => return false,
            }
        }
        true
    }
}

impl Models {
    /// Comes back when a request has begun to wait.
    pub async fn wait_began(&self) {
        self.waiting.1.notified().await;
    }

    /// Requests that wait for a person to grant more.
    pub fn waits(&self) -> Vec<Wait> {
        self.waiting.all()
    }
}
