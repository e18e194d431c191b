//! Joins the rooms in the right order: journal first, one commit, one door.
//!
//! Knows no terminal, no socket and no environment variable; [`Kernel::boot`] is given everything it needs.
#![forbid(unsafe_code)]

mod add_session;
mod assign;
mod boot;
mod brain_host;
mod call;
mod call_door;
mod cancel;
mod chores;
mod continue_task;
mod crash;
mod discipline;
mod episode;
mod explain;
mod file_thread;
mod fork;
mod hook;
mod instance;
mod interrupt;
mod job;
mod keep;
mod lessons;
mod live_settings;
mod merge;
mod notify;
mod open_workspace;
mod operator_call;
mod phase;
mod project_text;
mod question;
mod queue;
mod replay;
mod scan;
mod session_host;
mod talk;
mod token;
mod tools;
mod try_run;
mod tuning;
mod work;
mod zone_close;

pub use agent::{TalkPosition, TalkSeat, TalkSession};
pub use brain::BrainSpec;
pub use compare::{Divergence, ReplayReport};
pub use continue_task::Continued;
pub use crash::Crash;
pub use discipline::ChosenDiscipline;
pub use gate::{
    Bundle, CallEnd, CallOutcome, CallRange, Checked, Gate, HomeProposal, JobTerms, KnownSkill, Parsed, PastPolicy, PolicyProposal,
    Request, RoomRuntime, SANDBOX_RUN, SandboxConfig, SkillWork, TaskShape, Templates, TokenRequest, TrustedPolicy, is_worker, locate,
};
pub use host::{SettingsFault, SettingsState};
pub use ledger::{Clock, Home, KeptDeadline, Ledger, MERGE, ProcessAccount, Reply, Urgency, Verification, blob_names};
pub use live_settings::{check_settings, grpc_settings};
pub use merge::{AnswerPiece, MergeLine, MergeOutcome, MergeWish, UndoOutcome, verify_commit_offline};
pub use models::{CassetteView, ExchangeView, GatewayAccess, ModelTrial, Traffic, Wait};
pub use operator_call::{CallOptions, CallReport};
pub use question::Question;
pub use queue::{Added, NewTask};
pub use room::{NO_READS, OutputPiece, RoomView, RunningCall, TryRun};
pub use sandbox::Exit;
pub use session::{CheckedPlan, NewSession, Reexecution, SessionEnd, SlotLimits};
pub use talk::{NewTalk, TalkRefused};
pub use tool::is_unseen;
pub use tuning::Tuning;
pub use workspace::reader::read_project_file;
pub use workspace::{FileDiff, FileVersion, MergeDiff, Toolchain, Toolchains, Unified, readable, unified};
pub use world::{Fault, FaultKind, Stop};

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use workspace::increment::IncrementKeeper;
use world::TaskId;

/// Work that is long and has several beginnings. An `async fn` is compiled by every crate that waits for it, with all that it waits for; behind a
/// pointer it is compiled here alone.
pub(crate) type KernelFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

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
    pub rooms: Arc<host::Rooms>,
    /// The rooms of tasks that are worked on.
    pub workspaces: Arc<room::OpenWorkspaces>,
    /// Rooms that are thrown away after use.
    pub throwaways: room::ThrowawayRooms,
    /// The gateway, and who may use it.
    pub models: Arc<models::Models>,
    /// The brains that there are, and vendors' clients among them.
    pub brains: agent::Brains,
    /// The queue, and what is under way.
    pub tasks: work::Tasks,
    /// The process tree: agents, their messages and their supervision.
    pub tree: Arc<tree::Tree>,
    /// Vendors' clients that wait for their worker's next task.
    pub clients: Arc<agent::LiveClients>,
    /// What is kept of the workspaces of sessions, for forks.
    increments: parking_lot::Mutex<HashMap<TaskId, Arc<tokio::sync::Mutex<IncrementKeeper>>>>,
    /// Places for the steps and rooms of sessions.
    pub slots: Arc<session::RoomSlots>,
    /// Who talks with which worker.
    pub talks: Arc<agent::Talks>,
    /// Who looks on at which worker.
    pub watchers: Arc<report::Watchers>,
    /// The verification of the whole chain that this start began.
    pub verifier: ledger::Verifier,
    /// This run of the kernel. The last to go: it holds the lock of the home.
    pub instance: instance::Instance,
}
