//! Vendors' clients at work: one is started in its task's room, or goes on there that waited since the worker's last task.
//!
//! Names, programs and protocols are `agent` and `brain::agent`; here is what joins a client with rooms, workspaces and tasks.
//! **Invariant.** A client works for one task at a time, and one that waits is held still.

mod live;
mod notes;
mod supervise;

use crate::Kernel;
use agent::wire_of;
use brain::agent::Supervised;
use brain::{Brain, BrainSpec};
use host::HOME_LAYER;
pub use live::LiveClients;
pub(crate) use live::RoomTerms;
use std::path::PathBuf;
use supervise::RoomAgent;
use world::{Code, Fault, FaultKind, Pid, Refusal, Stop, Task, TaskId, ZoneId};

impl Kernel {
    /// Opens the brain of a task that a vendor's client works on.
    pub(crate) async fn open_client(&self, task: &Task, spec: &BrainSpec) -> Result<Box<dyn Brain>, Stop> {
        if task.replays.is_some() {
            let reason = "work of a vendor's client cannot be replayed: its own steps are not the kernel's to repeat";
            return Err(Refusal::new(Code::Unsupported, reason).into());
        }
        let stopping = || Fault::new(FaultKind::Stopping, "the kernel is stopping", "its last user has gone");
        let kernel = self.me.upgrade().ok_or_else(stopping)?;
        let Some(program) = self.brains.program(spec)? else {
            return Err(Refusal::new(Code::Unsupported, "this brain has no program").into());
        };
        let project = self.workspace_of(task.id).await?.project.clone();
        let boot = self.brains.boot_of(task, spec, &project)?;
        let launcher = RoomAgent::new(kernel, task.clone(), program);
        let notes = self.turn_notes(task).await?;
        Ok(Box::new(Supervised::new(wire_of(spec)?, launcher, boot).with_notes(notes)))
    }

    /// The home that the worker's client has in the workspace of a task that nobody works on now.
    pub(crate) fn waiting_home(&self, zone: ZoneId, pid: Pid) -> Option<PathBuf> {
        let tasks: Vec<TaskId> = self.ledger.look(|world| {
            let own = world.tasks.values().filter(|task| (task.zone, task.pid) == (zone, pid) && task.workspace.is_some());
            own.map(|task| task.id).collect()
        });
        let busy = self.tasks.episodes.lock();
        let homes = tasks.into_iter().filter(|task| !busy.contains_key(task)).map(|task| self.instance.home.work_of(task));
        homes.map(|work| work.join("layers").join(HOME_LAYER)).find(|home| home.is_dir())
    }
}
