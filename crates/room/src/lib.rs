//! The rooms that are open now: those of tasks, throw-away ones, what they show, what leaves them, and what runs in them.
//!
//! `sandbox` makes a room and `host` has what it is made with; this crate knows whose each is. When a room is opened or closed, and what
//! becomes of what was written in it, is the kernel's to say. **Invariant.** A task has at most one open room. What is written in a
//! throw-away room reaches neither the project nor a task. Nothing leaves a room but under a permit.
#![forbid(unsafe_code)]

mod egress;
mod open_workspace;
mod room_view;
mod running_work;
mod scan;
mod secret_files;
mod throwaway_room;
mod try_run;
mod unmasked;

pub use egress::EgressGate;
pub use open_workspace::{MOVE_MAX, OpenWorkspace, OpenWorkspaces};
pub use room_view::RoomView;
pub use running_work::{RunningCall, RunningWork, WorkGuard, WorkKey};
pub use scan::Scan;
pub use secret_files::secret_files;
pub use throwaway_room::{RoomContent, ThrowawayRoom, ThrowawayRooms};
pub use try_run::{OutputPiece, ReadyTrial, TryRun};
pub use unmasked::NO_READS;
