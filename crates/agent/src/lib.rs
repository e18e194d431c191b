//! A vendor's client as the brain of a task: which program it is, whether it can work, how it is started, and what it finds in its room.
//!
//! [`Brains`] knows names, programs and who pays. [`LiveClients`] starts a client in its task's room as the call `brain.run`, or has one go on that waited
//! there since the worker's last task. In the room it finds two doors: the kernel's own tools ([`RoomTools`]), and who answers its hooks while a person talks with it ([`TalkHook`]). What is
//! said on its terminal goes through a [`TalkSession`]. The protocols themselves are `brain::agent`.
//!
//! **Invariant.** Everything that a client asks for passes the kernel's door, which this crate knows as [`CallDoor`] and nothing more.
#![forbid(unsafe_code)]

mod call_door;
mod client;
mod client_model;
#[cfg(test)]
mod fuzzed;
mod hook;
mod launch;
mod preflight;
mod program;
mod room_tools;
mod script_file;
mod session;
mod talk;
mod transcript;
mod tree_tools;
mod workflow_tools;

pub use call_door::{CallDoor, DoorFuture};
pub use client::{Announced, LiveClients, RoomTerms};
pub use hook::{HookResponder, TalkHook, TaskHook, serve_hooks};
pub use launch::{BRAIN_RUN, exit_of, run_request};
pub use preflight::{Brains, NamedBy, check_capability};
pub use program::{AgentProgram, client_of, is_hooked_at_work, wire_of};
pub use room_tools::RoomTools;
pub use script_file::read_script;
pub use session::{Leave, TalkArchive, TalkPosition, TalkSession};
pub use talk::{TALK, TalkSeat, Talks, hook_command, is_talk, last_lines, newest_conversation};
pub use transcript::ClientTranscript;
pub use tree_tools::{TreeTool, call_tree, recall_tree, tree_call, tree_tools};
pub use workflow_tools::{WorkflowTool, workflow_tools};
