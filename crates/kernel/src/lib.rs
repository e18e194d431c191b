//! Joins the rooms in the right order: journal first, one commit, one door.
//!
//! Knows no terminal, no socket and no environment variable; [`Kernel::boot`] is given everything it needs.
#![forbid(unsafe_code)]

mod aside;
mod boot;
mod call;
mod collect;
mod config;
mod episode;
mod extension;
mod forget;
mod home;
mod instance;
mod job;
mod ledger;
mod mask;
mod merge;
mod model;
mod moment;
mod native;
mod notify;
mod open_workspace;
mod operator_call;
mod outside;
mod policies;
mod prompt;
mod queue;
mod replay;
mod review;
mod room;
mod rules;
mod runtime;
mod scan;
mod scratch;
mod settings;
mod shown;
mod template;
mod token;
mod tools;
mod trial;
mod tuning;
mod verify;
mod work;
mod zone;

pub use brain::BrainSpec;
pub use call::{End, Outcome, Request};
pub use home::Home;
pub use job::JobTerms;
pub use ledger::Ledger;
pub use merge::{APPLY as MERGE, MergeLine, Undone};
pub use model::{CassetteView, ExchangeView, Known, Opened, Traffic, Wait};
pub use moment::Clock;
pub use operator_call::{CallOptions, CallReport};
pub use queue::{Added, NewTask};
pub use replay::{Divergence, Replayed};
pub use review::{Question, Reply};
pub use room::RoomView;
pub use rules::{Checked, PastPolicy, Range};
pub use runtime::Runtime;
pub use sandbox::Exit;
pub use template::{SANDBOX_RUN, SandboxConfig, Templates};
pub use token::TokenWish;
pub use tool::is_unseen;
pub use trial::{Piece, Trial};
pub use tuning::Tuning;
pub use verify::{Verification, blob_names};
pub use workspace::reader::read_project_file;
pub use workspace::{FileDiff, FileVersion, MergeDiff, Unified, readable, unified};
pub use world::{Fault, FaultKind, Stop};
pub use zone::{Bundle, Parsed, Proposal, Trusted, locate};

use std::sync::{Arc, Weak};

/// Joins the parts. What needs one part alone is a method of that part.
pub struct Kernel {
    /// Itself, for what goes on after a call.
    me: Weak<Kernel>,
    /// The journal, and the world that is folded from it.
    pub ledger: Arc<Ledger>,
    pub blobs: collect::BlobCollector,
    pub tools: tools::Tools,
    /// Zones, and the policy in force in each.
    pub policies: policies::Policies,
    /// What rooms are made with.
    pub rooms: runtime::Rooms,
    /// The rooms of tasks that are worked on.
    pub workspaces: open_workspace::OpenWorkspaces,
    /// Where each project keeps what no room shows.
    masks: Arc<mask::Masks>,
    /// The gateway, and who may use it.
    pub models: model::Models,
    /// The queue, and what is under way.
    pub tasks: work::Tasks,
    /// The verification of the whole chain that this start began.
    pub verifier: verify::Verifier,
    /// This run of the kernel. The last to go: it holds the lock of the home.
    pub instance: instance::Instance,
}
