//! Vendors' clients at work: one is started in its task's room, or goes on there that waited since the worker's last task.
//!
//! When a room is opened and a task begins is the kernel's to say; what runs, runs as a call at its door.
//! **Invariant.** A client works for one task at a time, and one that waits is held still.

mod live;
mod notes;
mod supervise;
mod unannounced;

use crate::{Brains, CallDoor, wire_of};
use brain::agent::Supervised;
use brain::{Brain, BrainSpec};
pub use live::{LiveClients, RoomTerms};
use room::OpenWorkspace;
use std::sync::Arc;
use supervise::RoomAgent;
pub use unannounced::Announced;
use world::{Code, Refusal, Stop, Task};

impl LiveClients {
    /// Opens the brain of a task that a vendor's client works on, in the task's workspace.
    pub async fn open(
        self: &Arc<LiveClients>,
        door: Arc<dyn CallDoor>,
        brains: &Brains,
        task: &Task,
        spec: &BrainSpec,
        opened: &OpenWorkspace,
    ) -> Result<Box<dyn Brain>, Stop> {
        if task.replays.is_some() {
            let reason = "work of a vendor's client cannot be replayed: its own steps are not the kernel's to repeat";
            return Err(Refusal::new(Code::Unsupported, reason).into());
        }
        let Some(program) = brains.program(spec)? else {
            return Err(Refusal::new(Code::Unsupported, "this brain has no program").into());
        };
        let boot = brains.boot_of(task, spec, &opened.project)?;
        let launcher = RoomAgent::new(door, self.clone(), task.clone(), program);
        let notes = self.turn_notes(brains, task, opened).await?;
        Ok(Box::new(Supervised::new(wire_of(spec)?, launcher, boot).with_notes(notes)))
    }
}
