//! Tasks whose models are refused because a budget is used up.
//!
//! A vendor's client tells such a refusal in words of its own, and some ask again for minutes. Here is what we said ourselves, so that the
//! task can stop with it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::sync::Notify;
use world::{Refusal, TaskId};

/// One request may be a title that nobody misses; after the second the work itself cannot go on.
const REFUSALS_MAX: u32 = 2;

#[derive(Default)]
pub struct Exhaustion {
    /// The last refusal of each task since a request of it was admitted, and how many there were.
    refused: Mutex<BTreeMap<TaskId, (Refusal, u32)>>,
    more: Notify,
}

impl Exhaustion {
    pub(crate) fn add(&self, task: TaskId, refusal: &Refusal) {
        let mut refused = self.refused.lock();
        let count = refused.get(&task).map_or(0, |(_, count)| *count);
        refused.insert(task, (refusal.clone(), count.saturating_add(1)));
        drop(refused);
        self.more.notify_waiters();
    }

    /// A request of the task was admitted, or its run is over.
    pub fn clear(&self, task: TaskId) {
        self.refused.lock().remove(&task);
    }

    /// Why the task's last request was refused, if a budget was the reason.
    pub fn take(&self, task: TaskId) -> Option<Refusal> {
        self.refused.lock().remove(&task).map(|(refusal, _)| refusal)
    }

    /// Returns when requests of the task are refused again and again.
    pub async fn lasts(&self, task: TaskId) {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if self.refused.lock().get(&task).is_some_and(|(_, count)| *count >= REFUSALS_MAX) {
                return;
            }
            more.await;
        }
    }
}
