//! What bounds a task: its time, and what its process may spend by its own word.
//!
//! **Invariant.** A program works on a task no longer than the task's time, and again as long after each answer of a person: while a question is open
//! and the time is up, the program is held.

use crate::live::LiveProgram;
use crate::{Tree, clock};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use world::{CapExceeded, Pid, TaskId, TaskState, World};

impl Tree {
    /// Ends what those work on who have used up what they may, as they say themselves.
    pub(crate) fn end_used_up(&self, by: Pid) {
        let Some(short) = self.ledger.look(|world| world.claimed_up(by)) else { return };
        let running: Vec<(TaskId, Pid)> = self.running.lock().iter().map(|(id, task)| (*id, task.pid)).collect();
        let lives_on_it = |pid: Pid| self.ledger.look(|world| world.claimed_up(pid).is_some_and(|other| other.pid == short.pid));
        for (id, _) in running.into_iter().filter(|(_, pid)| lives_on_it(*pid)) {
            if let Some(task) = self.running.lock().get(&id) {
                task.over.send_replace(Some(used_up(&short)));
            }
        }
    }

    /// Comes back when a task has worked for longer than it may. The time in which it waits for a person does not count: its program may go on with
    /// something else for what is left, and is held then until there is an answer.
    pub(crate) async fn over_time(&self, live: &Arc<LiveProgram>, id: TaskId, timeout_ms: Option<u64>) {
        let Some(timeout_ms) = timeout_ms else { return std::future::pending().await };
        loop {
            let left = self.ledger.look(|world| {
                let task = world.tasks.get(&id)?;
                let since = task.running_since_ms?;
                let worked = task.worked_ms.saturating_add(u64::try_from(clock::now_ms() - since).unwrap_or(0));
                Some(timeout_ms.saturating_sub(worked))
            });
            match left {
                Some(0) => return,
                Some(left) => tokio::time::sleep(Duration::from_millis(left)).await,
                None => {
                    let left = self.ledger.look(|world| left_beside_question(world, id, timeout_ms));
                    let goes_on = self.until(|world| world.tasks.get(&id).is_none_or(|task| task.running_since_ms.is_some()).then_some(()));
                    tokio::pin!(goes_on);
                    tokio::select! {
                        () = &mut goes_on => continue,
                        () = tokio::time::sleep(Duration::from_millis(left)) => {}
                    }
                    // What else it works on has its own time.
                    if self.ledger.look(|world| world.running_tasks(live.pid)) > 0 {
                        return;
                    }
                    let held = HeldForAnswer::new(live).await;
                    goes_on.await;
                    drop(held);
                }
            }
        }
    }
}

/// For how long the program of a task may still do something else while its question is open.
fn left_beside_question(world: &World, id: TaskId, timeout_ms: u64) -> u64 {
    let Some(task) = world.tasks.get(&id) else { return 0 };
    let asked_ms = match task.state {
        TaskState::Parked { review } => world.reviews.get(&review).map(|review| review.asked_ms),
        _ => None,
    };
    let waited = asked_ms.map_or(0, |asked| u64::try_from(clock::now_ms() - asked).unwrap_or(0));
    timeout_ms.saturating_sub(task.worked_ms).saturating_sub(waited)
}

/// A program that is held while its question is open. Goes on when this is dropped, unless a person paused it.
struct HeldForAnswer(Option<Arc<LiveProgram>>);

impl HeldForAnswer {
    async fn new(live: &Arc<LiveProgram>) -> HeldForAnswer {
        if live.is_held() {
            return HeldForAnswer(None);
        }
        match live.control.hold().await {
            Ok(()) => {
                live.set_held(true);
                HeldForAnswer(Some(Arc::clone(live)))
            }
            Err(error) => {
                world::log!("skep: process {} waits for an answer, and its program could not be held: {error}", live.pid);
                HeldForAnswer(None)
            }
        }
    }
}

impl Drop for HeldForAnswer {
    fn drop(&mut self) {
        if let Some(live) = self.0.take() {
            live.control.release();
            live.set_held(false);
        }
    }
}

/// Comes back with the reason why a task is to end.
pub(crate) async fn until_told(over: &mut watch::Receiver<Option<String>>) -> String {
    let told = over.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
    match told {
        Some(reason) => reason,
        // It is over already.
        None => std::future::pending().await,
    }
}

pub(crate) fn used_up(short: &CapExceeded) -> String {
    format!("the {} of process {} are used up, as it says itself: {} of {}", short.what, short.pid, short.used, short.cap)
}
