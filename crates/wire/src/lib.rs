//! One schema for every surface of the kernel, and one client.
//!
//! Knows frames, JSON-RPC, the shape of each method and what a code means to a person, a program and a shell. Knows nothing of how
//! the kernel answers. **Invariant.** Bytes from a peer become a value or an error that can be answered, never a panic.
#![forbid(unsafe_code)]

pub mod base64;
pub mod client;
pub mod code;
pub mod frame;
pub mod jsonrpc;
pub mod method;
pub mod principal;
pub mod socket;
pub mod table;

pub use client::{ClientError, KernelClient, NoteSender, ResponseStream, StreamItem};
pub use code::ErrorCode;
pub use frame::FrameError;
pub use jsonrpc::{MalformedMessage, Message, Notification, RpcError, RpcId, RpcRequest, RpcResponse};
pub use method::Method;
pub use principal::{Principal, PrincipalKind};
pub use socket::{SocketError, open_socket_dir, socket_path};
/// The nouns that methods speak of, so that a client needs no other crate.
pub use world::{
    Account, Alternative, Answer, ArtifactId, AtCap, BanId, BrainReport, Budget, By, CallId, CallPattern, CheckOutcome, CommitChange,
    CommitFacts, CommitReport, CommitVerdict, CommitWish, Constraints, ContextVerdict, CronAction, CronEntry, CronId, CronRun, CronSpec,
    Discipline, DropReason, EVERY_TOOL, EndReason, Event, ExecuteResult, FileCoverageMove, GrantId, IterationRecord, LessonId, Listing,
    MergeId, MergePath, MergeState, MessageId, MessagePriority, MissedRule, Mode, NOT_CHOSEN, NetUse, Observe, OverlapRule, PathChange,
    Pid, PlanConstraints, PlanCost, PlanFinding, PolicyProfile, PreflightCode, ProcessExit, ProcessRole, ProcessState, Program,
    ProgramLimits, ProgramRuntime, ProgramSchedule, Rate, Refusal, Remedy, RetryCause, ReviewId, Scope, SenderRelation, SessionLimits,
    SessionMode, SessionStatus, SessionTerms, Severity, Side, Spend, StepError, StepFinding, StepStatus, StoredArtifact, TaskId,
    TaskPlacement, Terms, Tier, TokenId, TreeSignal, UsageTotals, UsedRoom, Vendor, Visibility, WorkflowState, ZoneAddress, ZoneId, budget,
    coverage::percent, event, limits, near,
};
