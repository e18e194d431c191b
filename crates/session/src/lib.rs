//! Carries out sessions: has plans made and judged, runs their steps through the kernel's door, and remembers what they taught.
//!
//! **Invariant.** A step is a call through the door, or it is nothing. What a session has done follows from the journal alone, so it goes on after a crash where it was, and
//! no step is made twice. Does not know how a call is judged or how a room is opened: it asks the trait `SessionHost`, which the kernel implements.
#![forbid(unsafe_code)]

mod agentic;
mod asking;
mod brain_planner;
mod briefing;
mod carry_out;
mod catalog;
mod check;
mod checkpoint;
mod course;
mod delegate;
mod host;
mod meeting;
mod memory;
mod model_critic;
mod model_planner;
mod new_session;
mod outputs;
mod planner;
mod planner_spec;
mod planning;
mod preflight;
mod reexecute;
mod resume;
mod router;
mod run;
mod slots;
mod step;
mod success;
mod work;

pub use carry_out::STEPS_ABREAST;
pub use catalog::RegistryCatalog;
pub use check::{CheckedPlan, check_plans};
pub use host::{Foreseen, HostFuture, PREEMPTED, SessionHost};
pub use meeting::writers;
pub use new_session::{ForkStart, NewSession, SessionEnd};
pub use planner::{FILE_PLANNER, Planner, PlannerFault};
pub use planner_spec::PlannerSpec;
pub use reexecute::{Reexecution, reexecute};
pub use router::{Domain, route};
pub use run::run;
pub use slots::RoomSlots;
pub use workflow::{SlotLimits, check_scope, scope_hint};
