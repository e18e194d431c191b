//! A task's files from base to undo: what the project held, what a room changed, what goes in, and the way back.
//!
//! A driver over `sandbox`. It asks the gate through a trait ([`ChangeGate`]), keeps and reads contents through functions that it is lent, and
//! reads a project's files in one bounded way ([`reader`]). **Invariant.** Nothing is overwritten that the task did not start from; a
//! path holds its old or its new content and nothing between. *Does not know* the journal, processes, or who decides.
#![forbid(unsafe_code)]

mod apply;
mod aside;
pub mod auto;
pub mod base;
mod build;
pub mod build_layer;
pub mod change_set;
pub mod commit;
pub mod diff;
mod file_system;
mod freeze;
mod frozen;
mod git_room;
pub mod hash;
mod host_binds;
mod ignored;
pub mod increment;
pub mod keep;
pub mod lay_out;
mod links;
mod mask;
mod mode;
pub mod news;
mod overlay;
mod patch;
mod path_call;
mod place;
mod progress;
pub mod reader;
mod remove;
pub mod replay;
pub mod repository;
mod shape;
mod snapshot;
mod special;
pub mod stored;
pub mod task_commits;
#[cfg(test)]
mod tests;
mod three;
mod toolchain;
mod trailers;
mod tree;
mod unified;
mod unsettled;
mod was;
mod whole;

pub use apply::{MergePlan, MergeStep, step_of};
pub use aside::aside;
pub use base::{Dirty, DirtyFile};
pub use diff::{FileDiff, FileVersion, MergeDiff};
pub use freeze::{Freezer, FrozenChanges, NOT_KEPT, RoomChanges, unpair};
pub use frozen::{Conflict, Frozen, FrozenPath};
pub use git_room::git;
pub use host_binds::HostBinds;
pub use keep::{KeepList, KeptChanges, KeptPath};
pub use links::{Origin, judge as judge_links};
pub use mask::{Hidden, MASKED, MaskSet, MaskedNames, Sight, Walks};
pub use overlay::{git_binds, is_behind, room_fault};
pub use path_call::{ChangeGate, MOVE, PathCall, READ, WRITE};
pub use progress::MergeProgress;
pub use shape::ReadBlob;
pub use snapshot::{RoomSnapshot, text_at};
pub use toolchain::{Ecosystem, Toolchain, ToolchainChoice, Toolchains};
pub use trailers::{CommitTrailers, RecordRef, SeenTests, TestRuns};
pub use tree::{FileState, FileTree, State, open_root};
pub use unified::{Unified, differing, readable, unified};
pub use was::{BaseState, Bases, git_name, object_name};
pub use whole::{Swaps, settle};
