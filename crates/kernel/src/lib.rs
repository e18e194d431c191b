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

use open_workspace::OpenWorkspaces;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use world::{TaskId, ZoneId};

pub struct Kernel {
    pub ledger: Ledger,
    pub tools: tool::Registry,
    pub launcher: sandbox::Launcher,
    pub home: Home,
    /// The verification of the whole chain that this start began.
    verifier: verify::Verifier,
    pub started_ms: i64,
    /// Where a crash test wants this kernel to die.
    kill_at: Option<(String, u64)>,
    /// The operating-system user this kernel acts for.
    user: String,
    /// Tools that keep failing are left alone for a while.
    breakers: tool::Breakers,
    tuning: Tuning,
    redactor: Arc<journal::Redactor>,
    settings: settings::OperatorSettings,
    /// What every room's programs find in their environment.
    environment: Vec<(String, String)>,
    outside: outside::Outside,
    /// What rooms see of the host beside its system folders.
    shown: shown::Shown,
    /// Itself, for what goes on after a call.
    me: std::sync::Weak<Kernel>,
    /// The road to models, and who may take it.
    models: model::Models,
    templates: template::Templates,
    /// Where each project keeps what no room shows.
    masks: Arc<mask::Masks>,
    desks: OpenWorkspaces,
    /// Container engines that have been needed so far.
    engines: tokio::sync::Mutex<Vec<sandbox::oci::Engine>>,
    /// Rung when engines are let go of.
    quiet: Notify,
    trusted: Mutex<HashMap<ZoneId, Arc<Trusted>>>,
    /// Parsed bundles by hash, as long as a zone uses them.
    parsed: Mutex<HashMap<String, std::sync::Weak<zone::Parsed>>>,
    extensions: Mutex<HashMap<ZoneId, extension::Zoned>>,
    /// Counts trials of extension rules, so that each has a folder of its own.
    tried: std::sync::atomic::AtomicU64,
    /// One entry for each task that something is being done about right now.
    episodes: Mutex<HashMap<TaskId, AbortHandle>>,
    /// What is under way, and can be ended.
    works: Arc<work::Works>,
    /// Rung when a task may have become ready.
    ready: Notify,
    /// Rung when work may have been dropped.
    dropped: Arc<Notify>,
    /// Read by whoever keeps many blobs before one record names them; blobs are collected only while nobody does.
    keeping: tokio::sync::RwLock<()>,
    /// Held while blobs are collected.
    collecting: tokio::sync::Mutex<()>,
    stopping: std::sync::atomic::AtomicBool,
}
