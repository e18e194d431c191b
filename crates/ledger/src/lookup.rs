//! What many look up in the ledger, asked in one way.

use crate::Ledger;
use journal::Filter;
use std::path::PathBuf;
use world::event::ProcExited;
use world::{
    Code, Event, Fault, FaultKind, Listing, Merge, MergePath, MergeState, Missing, Pid, Refusal, Remedy, Stop, Task, TaskId, TaskState,
    World, ZoneId,
};

impl Ledger {
    /// A copy of a task as it is now. What a call or a change asks for each time, it asks by [`Ledger::look_at_task`]: while somebody has a copy
    /// of a session, the next event that changes it copies every step of it.
    pub fn task(&self, id: TaskId) -> Result<Task, Stop> {
        self.look_at_task(id, Task::clone)
    }

    /// Reads something of a task as it is now.
    pub fn look_at_task<T>(&self, id: TaskId, read: impl FnOnce(&Task) -> T) -> Result<T, Stop> {
        self.look(|world| world.tasks.get(&id).map(read)).ok_or_else(|| unknown_task(id).into())
    }

    /// Why nothing more is done about a task that was cancelled.
    pub fn cancelled(&self, id: TaskId) -> Option<Refusal> {
        let said = self.look(|world| {
            let task = world.tasks.get(&id).filter(|task| task.state == TaskState::Cancelled)?;
            Some(task.summary.clone().unwrap_or_else(|| "cancelled".into()))
        })?;
        Some(Refusal::new(Code::WrongState, format!("{id} was {said}")))
    }

    /// A task's records of these kinds, in their order.
    pub fn events(&self, task: TaskId, kinds: &[&str]) -> Result<Vec<Event>, Fault> {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let records = self.read(&Filter { task: Some(task.to_string()), kinds, ..Filter::default() })?;
        records.iter().map(event_of).collect()
    }

    /// What the journal says became of each path of a task's merge.
    pub fn merged(&self, id: TaskId) -> Result<Vec<MergePath>, Fault> {
        match self.events(id, &["merge.finished"])?.pop() {
            Some(Event::MergeFinished(event)) => Ok(event.paths),
            _ => Err(Fault::new(FaultKind::Bug, "the merge left no record", id)),
        }
    }

    /// The merge of a task, if one was proposed.
    pub fn merge_of(&self, task: &Task) -> Option<Merge> {
        task.merge.and_then(|merge| self.look(|world| world.merges.get(&merge).cloned()))
    }

    /// The newest merge of a task that is in the project.
    pub fn applied_merge_of(&self, id: TaskId) -> Option<Merge> {
        let is_applied = |merge: &&Merge| merge.task == id && merge.is_in_tree();
        self.look(|world| world.merges.values().rev().find(is_applied).cloned())
    }

    /// The merges of a task of which an undo left paths as they were, newest first.
    pub fn partly_undone(&self, id: TaskId) -> Vec<Merge> {
        self.look(|world| world.merges.values().rev().filter(|merge| merge.task == id && merge.is_partly_undone()).cloned().collect())
    }

    /// The merges of a task that went in, whether or not they were taken back since, newest first.
    pub fn merges_made(&self, id: TaskId) -> Vec<Merge> {
        let is_made =
            |merge: &&Merge| merge.task == id && matches!(merge.state, MergeState::Applied | MergeState::Undoing | MergeState::Undone);
        self.look(|world| world.merges.values().rev().filter(is_made).cloned().collect())
    }

    /// The folder of a zone's project.
    pub fn project_of(&self, zone: ZoneId) -> Result<PathBuf, Fault> {
        let project = self.look(|world| world.zones.get(&zone).map(|zone| PathBuf::from(&zone.path)));
        project.ok_or_else(|| Fault::new(FaultKind::Bug, "the repository is gone", zone))
    }

    /// Records the end of a process that is still alive.
    pub async fn record_exit(&self, pid: Pid, killed: bool, reason: String) -> Result<(), Fault> {
        let pending = self.commit(|world, _| {
            let alive = world.processes.get(&pid).is_some_and(|process| process.state.alive());
            let exited = ProcExited { pid, task: None, killed, reason, exit: None };
            (alive.then(|| exited.into()).into_iter().collect(), ())
        })?;
        pending.durable().await
    }
}

/// The refusal of an id that no task has.
pub fn unknown_task(id: TaskId) -> Refusal {
    Refusal::missing(Missing::Task, format!("there is no task `{id}`")).remedy(Remedy::List { what: Listing::Tasks })
}

/// The event of a record.
pub fn event_of(record: &journal::Record) -> Result<Event, Fault> {
    let line = record.as_line();
    let event = match &line.parts {
        Some((kind, payload)) => Event::parse(kind, payload),
        // Out of the format: the chain's check tells of it, and what it says still counts.
        None => serde_json::from_str(line.text),
    };
    event.map_err(|error| Fault::new(FaultKind::Bug, "a record cannot be read", error))
}

/// What a process is called; its pid where it is not known.
pub fn name_of(world: &World, pid: Pid) -> String {
    world.processes.get(&pid).map_or_else(|| pid.to_string(), |process| process.name.clone())
}
