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
use host::{BuildMoments, Rooms};
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
    pub moments: &'a dyn BuildMoments,
}

/// The work on one task as a phase of it ends.
#[derive(Clone, Copy)]
pub struct PhaseWork<'a> {
    pub task: &'a Task,
    pub opened: &'a OpenWorkspace,
    /// Names what the task began with.
    pub base: &'a str,
}

#[cfg(test)]
mod tests {
    use workflow::discipline::{PLAN_COMPLETE, REQUEST_EXEMPTION, WORKFLOW_STATE, available_tools};
    use world::{Discipline, Workflow, WorkflowState};

    /// A brain is sent to no tool that there is not.
    #[test]
    fn every_tool_that_a_phase_offers_exists() {
        let registry = tool::Registry::builtin();
        let is_there = |tool: &str| [PLAN_COMPLETE, REQUEST_EXEMPTION, WORKFLOW_STATE].contains(&tool) || registry.get(tool).is_some();
        for mode in Discipline::ALL {
            for state in WorkflowState::ALL {
                let tools = available_tools(&Workflow { state, ..Workflow::new(mode) });
                assert!(tools.iter().any(|tool| tool == "fs.read"), "control: {mode} {state} offers something");
                assert_eq!(tools.iter().find(|tool| !is_there(tool)), None, "{mode} {state}");
            }
        }
        assert!(!is_there("container.run"), "control: a name without a tool is noticed");
    }
}
