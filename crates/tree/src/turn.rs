//! Whose turn it is among the tasks of a process.
//!
//! **Invariant.** A process works on no more tasks at once than its limits say, the more urgent and the older first.

use crate::Tree;
use crate::calls::{CallEffect, TreeCall};
use crate::end::of_tree;
use gate::TreeRequest;
use serde_json::json;
use world::event::{TaskPrioritized, TaskStarted};
use world::{Event, Fault, Pid, ProcessState, Stop, Task, TaskId, TaskState, World};

impl Tree {
    /// Records that a task is begun, as soon as its process may work on one more. False where it never will.
    pub(crate) async fn begin_task(&self, id: TaskId) -> Result<bool, Fault> {
        loop {
            let begun = self.ledger.commit(|world, _| match may_begin(world, id) {
                Some(true) => {
                    let episode = world.tasks.get(&id).map_or(1, |task| task.episodes + 1);
                    let pid = world.tasks.get(&id).map_or(Pid::KERNEL, |task| task.pid);
                    (vec![Event::from(TaskStarted { pid, task: Some(id), episode })], Some(true))
                }
                Some(false) => (Vec::new(), Some(false)),
                None => (Vec::new(), None),
            })?;
            if let Some(begun) = begun.durable().await? {
                return Ok(begun);
            }
            self.until(|world| may_begin(world, id)).await;
        }
    }

    /// The same for one that waited for a person.
    pub(crate) async fn resume_task(&self, id: TaskId) -> Result<bool, Fault> {
        self.begin_task(id).await
    }

    /// Gives the tasks of a process another place among those that wait.
    pub async fn nice(&self, by: Pid, target: Pid, priority: i64) -> Result<(), Stop> {
        let about = Some(TreeRequest::Direct { target, only_children: false });
        let input = json!({ "pid": target.0, "priority": priority });
        let call = TreeCall { by, tool: "proc.nice", input, about, read_only: false };
        self.commit_call(call, |world, _, _| {
            of_tree(world, target)?;
            let name = ledger::name_of(world, by);
            let prioritized = |task: &Task| TaskPrioritized { pid: target, task: Some(task.id), priority, by: name.clone() }.into();
            let events = world.open_tasks(target).filter(|task| task.state == TaskState::Queued).map(prioritized).collect();
            Ok(CallEffect { events, output: json!({}), value: () })
        })
        .await
    }
}

/// May a task begin now? `None`: later, perhaps. `Some(false)`: never.
fn may_begin(world: &World, id: TaskId) -> Option<bool> {
    let Some(task) = world.tasks.get(&id).filter(|task| !task.state.at_rest()) else { return Some(false) };
    let Some(process) = world.processes.get(&task.pid).filter(|process| process.state.alive()) else { return Some(false) };
    if matches!(process.state, ProcessState::Paused | ProcessState::Sleeping) {
        return None;
    }
    let bound = process.limits().and_then(|limits| limits.tasks);
    let is_free = bound.is_none_or(|bound| (world.running_tasks(task.pid) as u64) < bound);
    // Who is more urgent, or came before, begins before.
    let is_next = !world.open_tasks(task.pid).any(|other| {
        other.state == TaskState::Queued
            && task.state == TaskState::Queued
            && (other.priority, std::cmp::Reverse(other.id)) > (task.priority, std::cmp::Reverse(task.id))
    });
    (is_free && (is_next || bound.is_none())).then_some(true)
}
