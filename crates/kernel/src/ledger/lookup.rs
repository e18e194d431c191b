//! What many look up in the ledger, asked in one way.

use super::Ledger;
use std::path::PathBuf;
use world::event::ProcExited;
use world::{Event, Fault, FaultKind, Merge, Pid, Task, World, ZoneId};

impl Ledger {
    /// The merge of a task, if one was proposed.
    pub(crate) fn merge_of(&self, task: &Task) -> Option<Merge> {
        task.merge.and_then(|merge| self.look(|world| world.merges.get(&merge).cloned()))
    }

    /// The folder of a zone's project.
    pub(crate) fn project_of(&self, zone: ZoneId) -> Result<PathBuf, Fault> {
        let project = self.look(|world| world.zones.get(&zone).map(|zone| PathBuf::from(&zone.path)));
        project.ok_or_else(|| Fault::new(FaultKind::Bug, "the zone is gone", zone))
    }

    /// Records the end of a process that is still alive.
    pub(crate) async fn record_exit(&self, pid: Pid, killed: bool, reason: String) -> Result<(), Fault> {
        let pending = self.commit(|world, _| {
            let alive = world.processes.get(&pid).is_some_and(|process| process.state.alive());
            let exited = ProcExited { pid, task: None, killed, reason };
            (alive.then(|| exited.into()).into_iter().collect(), ())
        })?;
        pending.durable().await
    }
}

/// The event of a record.
pub(crate) fn event_of(record: &journal::Record) -> Result<Event, Fault> {
    serde_json::from_str(&record.line).map_err(|error| Fault::new(FaultKind::Bug, "a record cannot be read", error))
}

/// What a process is called; its pid where it is not known.
pub(crate) fn name_of(world: &World, pid: Pid) -> String {
    world.processes.get(&pid).map_or_else(|| pid.to_string(), |process| process.name.clone())
}
