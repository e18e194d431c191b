//! The end of a zone: its workers go, and nothing of it is remembered but its records.

use crate::Kernel;
use std::path::Path;
use world::event::{ProcExited, ZoneClosed};
use world::{Code, Event, Pid, Refusal, Stop, Task, TaskId, TaskState, Zone};

impl Kernel {
    /// Stops the workers of the zone at a path and forgets it. Work that would be lost is a refusal, unless it is forced; then it is dropped.
    pub async fn close_zone(&self, path: &Path, is_forced: bool, by: &str) -> Result<Zone, Stop> {
        let top = gate::locate(path).await?;
        let zone = self.gate.policies.zone(&top)?;
        let in_zone = |is: fn(&Task) -> bool| -> Vec<TaskId> {
            self.ledger.look(|world| world.tasks.values().filter(|task| task.zone == zone.id && is(task)).map(|task| task.id).collect())
        };
        let open = in_zone(|task| !task.state.ended());
        let kept = in_zone(|task| task.kept.is_some());
        if !is_forced && let Some(first) = open.first().or(kept.first()) {
            let what = if open.is_empty() { "has changes that are kept" } else { "is not over" };
            let more = open.len() + kept.iter().filter(|id| !open.contains(id)).count() - 1;
            let others = if more > 0 { format!(", and {more} more like it") } else { String::new() };
            return Err(Refusal::new(Code::WrongState, format!("{first} {what}{others}"))
                .hint("merge, drop or cancel them first, or force it, which destroys their changes")
                .into());
        }
        for id in open {
            match self.cancel(id, by).await {
                // It ended meanwhile.
                Ok(()) | Err(Stop::Refused(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        for id in in_zone(|task| task.kept.is_some() && task.state != TaskState::Running) {
            self.drop_work(id, by).await?;
        }
        let pending = self.ledger.commit(|world, _| {
            let alive = world.processes.values().filter(|process| process.zone == Some(zone.id) && process.state.alive());
            let exited = alive.map(|process| {
                let reason = "its repository was removed".to_owned();
                ProcExited { pid: process.pid, task: None, killed: false, reason, exit: None }.into()
            });
            let mut events: Vec<Event> = exited.collect();
            events.push(ZoneClosed { pid: Pid::OPERATOR, task: None, zone: zone.id, by: by.to_owned() }.into());
            let is_open = |task: &Task| task.zone == zone.id && (!task.state.ended() || task.workspace.is_some());
            match world.tasks.values().find(|task| is_open(task)) {
                Some(task) => (Vec::new(), Err(Refusal::new(Code::WrongState, format!("{} is not over", task.id)).hint("try again"))),
                None => (events, Ok(())),
            }
        })?;
        pending.durable().await??;
        workspace::aside(|| self.rooms.drop_builds(zone.id));
        Ok(zone)
    }
}
