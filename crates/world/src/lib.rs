//! The nouns of Skep, the facts a journal can state about them, and the fold from facts to the present.
//!
//! Does no IO, reads no clock, starts no thread. **Invariant.** [`World::apply`] cannot fail: whatever the journal holds can be
//! folded, and folding the same records always gives the same world.
#![forbid(unsafe_code)]

pub mod address;
pub mod blob;
pub mod brain_report;
pub mod brain_spec;
pub mod budget;
mod byte_stream;
pub mod call;
pub mod commit_report;
pub mod coverage;
pub mod cron;
pub mod discipline;
pub mod doubt;
pub mod effect;
pub mod escalation;
pub mod event;
pub mod fault;
pub mod grant;
pub mod id;
pub mod json;
pub mod limits;
pub mod log;
pub mod merge;
pub mod message;
pub mod near;
pub mod process;
pub mod program;
pub mod refusal;
pub mod remedy;
pub mod route;
pub mod session;
pub mod stored_artifact;
pub mod task;
pub mod tier;
pub mod world;

pub use address::{TaskPlacement, WorkerAddress, ZoneAddress};
pub use blob::BlobNames;
pub use brain_report::{BrainAuth, BrainMode, BrainProblem, BrainReport, Capability, PreflightCode};
pub use brain_spec::{BrainSpec, UnknownBrain, Vendor};
pub use budget::{
    Account, Accounts, AtCap, Budget, By, Cap, CapExceeded, CostParts, Ending, Held, Lease, Need, Reserved, Row, Spend, TaskUsage,
    UsageTotals,
};
pub use byte_stream::ByteStream;
pub use call::{Hands, OpenCall, UsedRoom};
pub use commit_report::{CheckOutcome, CommitChange, CommitCheck, CommitFacts, CommitReport, CommitVerdict};
pub use coverage::{CoverageEvidence, CoverageFinding, CoverageVerdict, FileCoverageMove, MeasuredCoverage, ZoneCoverage};
pub use cron::{CronAction, CronEntry, CronRun, CronSpec, MissedRule, OverlapRule};
pub use discipline::{
    Discipline, Exemption, ExemptionCategory, TestEvidence, TestOutcome, TestPurpose, Workflow, WorkflowMark, WorkflowState,
};
pub use doubt::{Doubt, Doubts};
pub use effect::FoldStep;
pub use escalation::{Escalation, EscalationAnswer, Severity};
pub use event::{Event, Weight};
pub use fault::{Fault, FaultKind, Stop};
pub use grant::{
    Alternative, Answer, Ban, BootTime, CallPattern, Constraints, Deadline, Grant, Observe, Rate, Review, ReviewState, Scope, ShownContext,
    Terms, Token, Used,
};
pub use id::{
    ArtifactId, BanId, CallId, CronId, EscalationId, GrantId, LessonId, MergeId, MessageId, Pid, ReviewId, StreamId, TaskId, TokenId,
    ZoneId,
};
pub use merge::{CommitWish, Merge, MergePath, MergeState, NOT_CHOSEN, PathChange, PreparedCommit, Side};
pub use message::{
    DeadLetter, DropReason, Mail, Mailbox, MessageBody, MessageHolder, MessagePriority, Recipient, ReplyStatus, SenderRelation,
    TreeMessage, place_ms,
};
pub use process::{NetUse, Process, ProcessState};
pub use program::{
    BlockReason, EndReason, ExecuteOrder, ExecuteResult, ProcessExit, ProcessRole, Program, ProgramLimits, ProgramOriginal, ProgramReport,
    ProgramRun, ProgramRuntime, ProgramSchedule, Supervision, TreeSignal,
};
pub use refusal::{Code, Missing, Refusal, RefusalKind};
pub use remedy::{Listing, Remedy};
pub use route::{Route, RouteRefusal, TargetRelation, route};
pub use session::{
    ActivePlan, ContextVerdict, ForkPoint, IterationRecord, Lesson, PlanConstraints, PlanCost, PlanFinding, PolicyProfile, Session,
    SessionLimits, SessionMode, SessionStatus, SessionTerms, StepError, StepFinding, StepIncrement, StepRef, StepState, StepStates,
    StepStatus, exact_answer, exact_output, exact_plan,
};
pub use stored_artifact::{StoredArtifact, Visibility, readable};
pub use task::{
    Artifact, Base, EVERY_TOOL, FurtherPrompt, KeptWork, Mode, RetryCause, TASK_INPUT, Task, TaskState, TaskStatus, TaskWorkspace,
    ToolList, UNGATED,
};
pub use tier::Tier;
pub use world::{DepartedProcess, HomePolicy, Illegal, RegisteredSite, World, Zone};
