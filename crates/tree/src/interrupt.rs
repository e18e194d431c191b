//! Interruptions of tasks, and when a program has its task.
//!
//! On record a task runs before its program has it. **Invariant.** An interruption that comes in between is made again as soon as the program
//! has the task, so none is lost.

use crate::Tree;
use crate::execute::INTERRUPT_MAX;
use std::sync::Arc;
use tokio::sync::watch;
use world::event::TaskTaken;
use world::{Event, Pid, TaskId, TaskState, World};

impl Tree {
    /// Interrupts what a process works on; what there is of it is kept.
    pub(crate) async fn interrupt_tasks(&self, pid: Pid, reason: &str) {
        let Some(live) = self.live(pid) else { return };
        let running: Vec<(TaskId, String)> = {
            let running = self.running.lock();
            running.iter().filter(|(_, task)| task.pid == pid).map(|(id, task)| (*id, task.wire_id.clone())).collect()
        };
        // One that waits for its turn is not worked on.
        let is_begun = |world: &World, id: &TaskId| world.tasks.get(id).is_some_and(|task| task.state != TaskState::Queued);
        let begun = self.ledger.look(|world| running.into_iter().filter(|(id, _)| is_begun(world, id)).collect::<Vec<_>>());
        for (id, wire_id) in begun {
            // On record a task runs before its program has it, which then knows of none.
            let untaken = self.untaken(id);
            let mut answer = live.link.interrupt(&wire_id, reason).await;
            if let (Some(taken), Ok(false)) = (untaken, answer.as_ref().map(|answer| answer.acknowledged))
                && is_taken(taken).await
            {
                answer = live.link.interrupt(&wire_id, reason).await;
            }
            match answer {
                Ok(answer) => {
                    if let (Some(running), Some(partial)) = (self.running.lock().get_mut(&id), answer.partial_result) {
                        running.partial = Some(partial);
                    }
                }
                Err(error) => world::log!("skep: {id} was not interrupted: {error}"),
            }
        }
    }

    /// Tells when a program has a task that it does not have yet.
    fn untaken(&self, id: TaskId) -> Option<watch::Receiver<bool>> {
        let taken = self.running.lock().get(&id)?.taken.subscribe();
        let is_taken = *taken.borrow();
        (!is_taken).then_some(taken)
    }

    /// A program has its task: on record, for whoever waits for that.
    pub(crate) fn task_taken(self: &Arc<Self>, pid: Pid, incarnation: u64, id: TaskId) {
        if let Some(running) = self.running.lock().get(&id) {
            running.taken.send_replace(true);
        }
        let me = Arc::clone(self);
        tokio::spawn(async move {
            let recorded = async {
                let pending = me.ledger.commit(|world, _| {
                    let taken = Event::from(TaskTaken { pid, task: Some(id), incarnation });
                    (if world.check(&taken).is_ok() { vec![taken] } else { Vec::new() }, ())
                })?;
                pending.durable().await
            };
            if let Err(fault) = recorded.await {
                world::log!("skep: that process {pid} has {id} was not recorded: {fault}");
            }
        });
    }
}

/// Waits until a program has its task. False where it never gets it.
async fn is_taken(mut taken: watch::Receiver<bool>) -> bool {
    // Its other end goes with the task.
    matches!(tokio::time::timeout(INTERRUPT_MAX, taken.wait_for(|taken| *taken)).await, Ok(Ok(_)))
}
