//! Test-first, carried out: what a phase left behind, what of it is put back, and what the kernel itself saw of the tests.
//!
//! **Invariant.** A phase ends on what is in its room and on nothing that anybody says: the room is looked at while nothing runs in it, what the
//! phase did not allow is put back, and tests are run in a room of the kernel's own on exactly what is left. What cannot be told for sure does
//! not lead on. Does not know brains, nor when a turn is over.
#![forbid(unsafe_code)]

mod again;
mod boundary;
mod coverage;
mod evidence;
mod exempt;
mod phase;
mod test_run;
mod told;

pub use coverage::{coverage_doubts, judged_merge};
pub use evidence::{merge_reasons, unread_doubts};
pub use phase::{PhaseEnd, STALLED_MAX};

use gate::Gate;
use host::Rooms;
use ledger::Ledger;
use room::{OpenWorkspace, ThrowawayRooms};
use world::Task;

/// What it takes to look at a task's work and to run its tests.
#[derive(Clone, Copy)]
pub struct TestFirst<'a> {
    pub ledger: &'a Ledger,
    pub gate: &'a Gate,
    pub rooms: &'a Rooms,
    pub throwaways: &'a ThrowawayRooms,
}

/// The work on one task as a phase of it ends.
#[derive(Clone, Copy)]
pub struct PhaseWork<'a> {
    pub task: &'a Task,
    pub opened: &'a OpenWorkspace,
    /// Names what the task began with.
    pub base: &'a str,
}
