//! Joins the rooms in the right order: journal first, one commit, one door.
//!
//! Knows no terminal, no socket and no environment variable; [`Kernel::boot`] is given everything it needs.
#![forbid(unsafe_code)]

mod boot;
mod call;
mod chores;
mod episode;
mod explain;
mod file_thread;
mod instance;
mod job;
mod merge;
mod notify;
mod open_workspace;
mod operator_call;
mod question;
mod queue;
mod replay;
mod room;
mod runtime;
mod scan;
mod services;
mod settings;
mod throwaway_room;
mod token;
mod tools;
mod try_run;
mod tuning;
mod unmasked;
mod work;

pub use brain::BrainSpec;
pub use call::{CallEnd, CallOutcome};
pub use gate::{
    Bundle, CallRange, Checked, Gate, JobTerms, Parsed, PastPolicy, PolicyProposal, Request, RoomRuntime, SANDBOX_RUN, SandboxConfig,
    Templates, TokenRequest, TrustedPolicy, locate,
};
pub use ledger::{Clock, Home, Ledger, MERGE, ProcessAccount, Reply, Verification, blob_names};
pub use merge::{MergeLine, UndoOutcome};
pub use models::{CassetteView, ExchangeView, GatewayAccess, Traffic, Wait};
pub use operator_call::{CallOptions, CallReport};
pub use question::Question;
pub use queue::{Added, NewTask};
pub use replay::{Divergence, ReplayReport};
pub use room::RoomView;
pub use sandbox::Exit;
pub use tool::is_unseen;
pub use try_run::{OutputPiece, TryRun};
pub use tuning::Tuning;
pub use workspace::reader::read_project_file;
pub use workspace::{FileDiff, FileVersion, MergeDiff, Unified, readable, unified};
pub use world::{Fault, FaultKind, Stop};

use std::sync::{Arc, Weak};

/// Joins the parts. What needs one part alone is a method of that part.
pub struct Kernel {
    /// Itself, for what goes on after a call.
    me: Weak<Kernel>,
    /// The journal, and the world that is folded from it.
    pub ledger: Arc<Ledger>,
    pub blobs: ledger::BlobCollector,
    pub tools: tools::Tools,
    /// The policy in force in each zone, and the judgement of every call.
    pub gate: Arc<Gate>,
    /// What rooms are made with.
    pub rooms: runtime::Rooms,
    /// The rooms of tasks that are worked on.
    pub workspaces: open_workspace::OpenWorkspaces,
    /// The gateway, and who may use it.
    pub models: Arc<models::Models>,
    /// The queue, and what is under way.
    pub tasks: work::Tasks,
    /// The verification of the whole chain that this start began.
    pub verifier: ledger::Verifier,
    /// This run of the kernel. The last to go: it holds the lock of the home.
    pub instance: instance::Instance,
}
