//! What can be called, and the ordinary tools.
//!
//! A [`Tool`] has a manifest, says what a call is about, and does the work. It knows neither policy nor journal: the door decides, and
//! hands it the very files that were decided on as [`ResolvedPath`]s. The [`Registry`] has all tools by name and knows no kinds of them.
//! **Invariant.** A built-in tool in the kernel's process only reads, and only through the workspace's root descriptor; whatever
//! changes something of the project runs in a room. One tool reaches beyond both, `http.request`, and it opens no socket to an address
//! that is not public (`net.rs`).
//!
//! For the door there are besides: [`Breakers`], which rest a tool that keeps failing; [`PathLocks`], which run calls at once unless
//! they meet on a path; and the [`Sanitizer`], through which a result goes last.
#![forbid(unsafe_code)]

mod adapted;
mod breaker;
mod builtin;
mod command;
mod context;
mod env;
mod fault;
mod follower;
mod kept_job;
mod manifest;
mod net;
mod path_locks;
mod permission;
mod pipeline;
mod registered;
mod registry;
mod resolved_path;
mod sanitize;
mod schema;
mod subcall;
mod tool;
mod unavailable;
mod walk;

pub use breaker::{BreakerGuard, Breakers};
pub use builtin::brain_run::BRAIN_HOME;
pub use context::{Context, JobNetwork, RunMode, SentinelSecret};
pub use env::{is_closed, scrub};
pub use fault::{ToolFault, ToolStop};
pub use follower::{JobFollower, JobSetup, Streams, TerminalLine};
pub use kept_job::{KeptJob, KeptStage};
pub use manifest::{Manifest, ManifestError, OutputMode, RESULT_TOKENS_MAX, Room, Runner, Supports, Truncate};
pub use net::{AddressFilter, HttpTarget, Redirect, host_of, port_of};
pub use path_locks::{PathLock, PathLocks, conflicts};
pub use registered::RegisteredTool;
pub use registry::Registry;
pub use resolved_path::{Access, NamedPath, PathKind, Real, ResolvedPath};
pub use sanitize::{Cleaned, PatternError, Sanitizer, is_unseen, visible};
pub use subcall::{GateAnswer, NoSubcalls, PatchedFile, SubcallGate};
pub use tool::{Adapter, Output, Tool, ToolFuture};
pub use unavailable::ToolUnavailable;
