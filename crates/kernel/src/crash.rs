//! What a crash of the kernel interrupted, for the first person who asks after it.

use crate::Kernel;
use gate::{LOST, MODEL_REQUEST};
use world::{CallId, ReviewId, ReviewState, TaskId, World};

/// The last kernel ended without a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Its last record.
    pub at_ms: i64,
    /// Calls that it had begun, save requests to models.
    pub calls: Vec<CallId>,
    tasks: Vec<TaskId>,
}

impl Crash {
    /// Reads it off the world before anything is settled; `None` after an orderly stop and at the first start.
    pub(crate) fn of(world: &World) -> Option<Crash> {
        let open = || world.calls.iter().filter(|(_, call)| call.tool != MODEL_REQUEST);
        let tasks = open().filter_map(|(_, call)| call.task).collect();
        world.is_running.then(|| Crash { at_ms: world.now_ms, calls: open().map(|(id, _)| *id).collect(), tasks })
    }
}

impl Kernel {
    /// What the last crash interrupted, with the questions that came of it so far. Told once in a kernel's life.
    pub fn take_crash(&self) -> Option<(Crash, Vec<ReviewId>)> {
        let crash = self.instance.crash.lock().take()?;
        let asked = self.ledger.look(|world| {
            let of_crash = world.reviews.values().filter(|review| {
                let of_task = review.task.is_some_and(|task| crash.tasks.contains(&task));
                of_task && review.state == ReviewState::Open && review.rules.iter().any(|rule| rule == LOST)
            });
            of_crash.map(|review| review.id).collect()
        });
        Some((crash, asked))
    }
}
