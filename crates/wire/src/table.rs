//! The method table: every method of the control protocol, one row each.
//!
//! A row says what a method is called, what it takes and gives, who may call it, whether it reads or changes something, how it answers,
//! what a hang-up does to it, and how long a client waits. Server, client and documents read it here and nowhere else; a new way in is a
//! listener that makes a [`Principal`], and new callers in these rows.
//!
//! **Invariant.** Every row has a variant of [`MethodCall`], and the server has one handler for each of them: a test of the server says so. A handler
//! without a row does not compile, and neither do two rows of one name.

use crate::method::artifact::{
    ArtifactListParams, ArtifactListResult, ArtifactReadParams, ArtifactReadResult, ArtifactRemoveParams, ArtifactStoreParams,
    ArtifactStoreResult,
};
use crate::method::brain::{BrainListParams, BrainListResult};
use crate::method::call::{CallCancelParams, CallRunParams, CallRunResult, ToolListResult};
use crate::method::cron::{CronAddParams, CronAddResult, CronIdParams, CronListResult, CronNextParams, CronNextResult};
use crate::method::discipline::{DisciplineShowParams, DisciplineSwitchParams, DisciplineView};
use crate::method::escalation::{
    EscalationRaiseParams, EscalationRaiseResult, LogWriteParams, MetricReportParams, ResourceRequestParams, ResourceRequestResult,
    ResourceUsageParams, ResourceUsageResult,
};
use crate::method::grant::{GrantListResult, GrantRevokeParams, TokenIssueParams, TokenIssueResult};
use crate::method::journal::{
    JournalAcknowledgeParams, JournalDoubtsResult, JournalForgetParams, JournalForgetResult, JournalReadResult, JournalVerifyResult,
    RecordFilter,
};
use crate::method::kernel::{KernelDoctorResult, KernelNoticesResult, KernelStatusResult};
use crate::method::memory::{LessonView, MemoryForgetParams, MemoryListResult, MemoryShowParams, MemoryWhyParams, MemoryWhyResult};
use crate::method::merge::{MergeListResult, MergeUndoParams, MergeUndoResult};
use crate::method::message::{
    EventFollowParams, MessageDeadResult, MessageListParams, MessageListResult, MessageSendParams, MessageSendResult,
    MessageSubscribeParams, StreamOpenParams,
};
use crate::method::model::{
    BudgetGrantParams, BudgetListResult, BudgetReconcileParams, BudgetSetParams, CassetteListParams, CassetteListResult, GatewayOpenParams,
    GatewayOpenResult, ModelTryParams, ModelTryResult, ModelUsageParams, ModelUsageResult,
};
use crate::method::plan::{PlanCheckParams, PlanCheckResult, PlanMakeParams, PlanMakeResult};
use crate::method::policy::{
    PolicyCheckParams, PolicyCheckResult, PolicyExplainParams, PolicyExplainResult, PolicyHomeParams, PolicyHomeResult, PolicyLogParams,
    PolicyLogResult, PolicySuggestResult, PolicyTrialParams, PolicyTrialResult,
};
use crate::method::process::{ProcCancelParams, ProcListResult, ProcView};
use crate::method::program::{
    ProcChildrenParams, ProcExecuteParams, ProcExecuteResult, ProcInfoParams, ProcKillParams, ProcKillResult, ProcNiceParams,
    ProcSignalParams, ProcSpawnParams, ProcSpawnResult, ProcWaitParams, ProcWaitResult,
};
use crate::method::queue::{QueueChangeParams, QueueListParams, QueueListResult, QueueRemoveParams, WorkerPinParams, WorkerPinResult};
use crate::method::review::{ReviewAnswerParams, ReviewListParams, ReviewListResult, ReviewShowParams, ReviewView};
use crate::method::sandbox::{SandboxListResult, SandboxRunParams, SandboxTemplatesParams, SandboxTemplatesResult};
use crate::method::session::{
    SessionForkParams, SessionListParams, SessionListResult, SessionReplayParams, SessionReplayResult, SessionShowParams,
    SessionStartParams, SessionView, SessionWatchParams,
};
use crate::method::skill::{SkillListParams, SkillListResult};
use crate::method::talk::{TalkOpenParams, TalkOpenResult, TalkWatchParams};
use crate::method::task::{
    TaskAddParams, TaskAddResult, TaskAwaitParams, TaskContinueResult, TaskDiffResult, TaskFileParams, TaskFileResult, TaskIdParams,
    TaskListParams, TaskListResult, TaskMergeParams, TaskMergeResult, TaskPatchParams, TaskPatchResult, TaskRejectParams, TaskReplayParams,
    TaskReplayResult, TaskRetryParams, TaskSayParams, TaskTryParams, TaskTryResult, TaskView,
};
use crate::method::transcript::{TranscriptListParams, TranscriptListResult, TranscriptReadParams, TranscriptReadResult};
use crate::method::watch::ProcWatchParams;
use crate::method::work::{WorkListParams, WorkListResult};
use crate::method::zone::{
    ZoneCloseParams, ZoneCloseResult, ZoneInitParams, ZoneInitResult, ZoneResolveParams, ZoneResolveResult, ZoneStatusParams,
    ZoneStatusResult, ZoneTrustParams, ZoneTrustResult,
};
use crate::method::{Method, Nothing};
use crate::{ErrorCode, Principal, PrincipalKind, RpcError};
use serde_json::value::RawValue;
use world::{CommitFacts, CommitReport, Refusal, json};

/// One method, as everybody but its handler needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct MethodRow {
    pub id: MethodId,
    /// `noun.verb`.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static [&'static str],
    /// Who may call it. A kind is added together with a handler that acts for that principal and not for the operator.
    pub callers: &'static [PrincipalKind],
    pub effect: Effect,
    pub delivery: Delivery,
    pub hang_up: HangUp,
    /// How long a client waits for the answer; `None` for what takes as long as the work takes.
    pub wait_ms_max: Option<u64>,
}

/// Whether a method leaves something behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Changes,
    /// The kernel stops once the answer is sent.
    EndsKernel,
}

/// What goes over the connection beside the request and its one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Nothing.
    Once,
    /// Notes of the kernel's, before or after the answer.
    Stream,
    /// Notes both ways. A connection has one such request.
    Duplex,
}

/// What a client that hangs up does to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangUp {
    /// The work is dropped where it waits next.
    Drops,
    /// The handler is left to come to its own end.
    Finishes,
}

impl MethodRow {
    /// Whether `principal` may call this method, or the refusal, which says who may.
    pub fn allows(&self, principal: &Principal) -> Result<(), Refusal> {
        if self.callers.contains(&principal.kind()) {
            return Ok(());
        }
        let callers: Vec<String> = self.callers.iter().map(ToString::to_string).collect();
        Err(Refusal::new(world::Code::Denied, format!("{principal} may not call `{}`: only {} may", self.name, callers.join(" or "))))
    }
}

/// Whether `principal` may call `method`, or the refusal, which says who may.
pub fn allows(principal: &Principal, method: MethodId) -> Result<(), Refusal> {
    method.row().allows(principal)
}

/// Reads the parameters of `M`; none at all is `{}`.
fn parse<M: Method>(params: Option<&RawValue>) -> Result<M::Params, RpcError> {
    json::from_json(params.map_or("{}", RawValue::get)).map_err(|error| {
        RpcError::new(ErrorCode::BadInput, format!("the parameters of `{}` are wrong", M::ID.name())).why(json::what(&error))
    })
}

macro_rules! table {
    ($($(#[doc = $about:literal])+ $id:ident = $name:literal ($params:ty) -> $result:ty,
        [$($caller:ident)+] $effect:ident $delivery:ident $hang_up:ident $wait:ident;)*) => {
        /// A method, by the name of its row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MethodId {
            $($id,)*
        }

        impl MethodId {
            pub const fn name(self) -> &'static str {
                match self { $(MethodId::$id => $name,)* }
            }

            /// The method that a request names.
            pub fn from_name(name: &str) -> Option<MethodId> {
                match name {
                    $($name => Some(MethodId::$id),)*
                    _ => None,
                }
            }

            pub const fn row(self) -> &'static MethodRow {
                &ROWS[self as usize]
            }
        }

        /// All rows, in the order of [`MethodId`].
        pub const ROWS: &[MethodRow] = &[$(MethodRow {
            id: MethodId::$id,
            name: $name,
            about: &[$($about),+],
            callers: &[$(PrincipalKind::$caller),+],
            effect: Effect::$effect,
            delivery: Delivery::$delivery,
            hang_up: HangUp::$hang_up,
            wait_ms_max: $wait,
        },)*];

        /// A request whose parameters were read.
        #[derive(Clone, Debug)]
        pub enum MethodCall {
            $($id($params),)*
        }

        impl MethodCall {
            /// Reads the parameters of `method`.
            pub fn parse(method: MethodId, params: Option<&RawValue>) -> Result<MethodCall, RpcError> {
                match method { $(MethodId::$id => parse::<$id>(params).map(MethodCall::$id),)* }
            }
        }

        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug)]
            pub struct $id;

            impl Method for $id {
                const ID: MethodId = MethodId::$id;
                type Params = $params;
                type Result = $result;
            }
        )*
    };
}

/// What the kernel answers from what it knows.
const SHORT: Option<u64> = Some(30_000);
/// As long as the work takes.
const OPEN: Option<u64> = None;

table! {
    /// What the kernel is doing, in figures.
    KernelStatus = "kernel.status" (Nothing) -> KernelStatusResult, [Operator] Reads Once Finishes SHORT;
    /// What every command tells beside its own result: open doubts, and once what a crash interrupted.
    KernelNotices = "kernel.notices" (Nothing) -> KernelNoticesResult, [Operator] Reads Once Finishes SHORT;
    /// Stops the kernel. Answered before it goes down; the client waits for the end of the stream.
    KernelStop = "kernel.stop" (Nothing) -> Nothing, [Operator] EndsKernel Once Finishes SHORT;
    /// What this host supports and how to get the rest; toolchains that were found, after a new look.
    KernelDoctor = "kernel.doctor" (Nothing) -> KernelDoctorResult, [Operator] Reads Once Finishes SHORT;

    /// Opens a git work tree as a zone; writes the default files where there are none.
    ZoneInit = "zone.init" (ZoneInitParams) -> ZoneInitResult, [Operator] Changes Once Finishes SHORT;
    /// Shows what the project proposes; with its hash, puts it in force.
    ZoneTrust = "zone.trust" (ZoneTrustParams) -> ZoneTrustResult, [Operator] Changes Once Finishes SHORT;
    /// Zones with their processes and tasks.
    ZoneStatus = "zone.status" (ZoneStatusParams) -> ZoneStatusResult, [Operator] Reads Once Finishes SHORT;
    /// Which work tree is meant by a repository and a branch, and where one would be made. Registers the repository that `path` is in.
    ZoneResolve = "zone.resolve" (ZoneResolveParams) -> ZoneResolveResult, [Operator] Changes Once Finishes SHORT;
    /// Stops the workers of a zone and forgets it. The files of the work tree stay.
    ZoneClose = "zone.close" (ZoneCloseParams) -> ZoneCloseResult, [Operator] Changes Once Finishes OPEN;

    /// All processes.
    ProcList = "proc.list" (Nothing) -> ProcListResult, [Operator] Reads Once Finishes SHORT;
    /// Ends what a process does: its task, or its requests to models.
    ProcCancel = "proc.cancel" (ProcCancelParams) -> Nothing, [Operator] Changes Once Finishes SHORT;
    /// Shows what a worker, a task or everybody does, from the recent past on, as `journal.record`. Takes `watch.beat`.
    ProcWatch = "proc.watch" (ProcWatchParams) -> Nothing, [Operator] Reads Duplex Drops OPEN;

    /// Starts a process of the tree: a program in a sandbox, or nothing but an entry with a mailbox.
    ProcSpawn = "proc.spawn" (ProcSpawnParams) -> ProcSpawnResult, [Operator Process] Changes Once Finishes OPEN;
    /// Ends a process of the tree, and with `recursive` everything below it.
    ProcKill = "proc.kill" (ProcKillParams) -> ProcKillResult, [Operator Process] Changes Once Finishes OPEN;
    /// Sends a signal to a process of the tree.
    ProcSignal = "proc.signal" (ProcSignalParams) -> Nothing, [Operator] Changes Once Finishes OPEN;
    /// Answers when a process of the tree has ended, and takes note of its end; `timeout` after `timeout_ms`.
    ProcWait = "proc.wait" (ProcWaitParams) -> ProcWaitResult, [Operator Process] Changes Once Drops OPEN;
    /// Has a process of the tree do a task, and answers with what came of it.
    ProcExecute = "proc.execute" (ProcExecuteParams) -> ProcExecuteResult, [Operator Process] Changes Once Finishes OPEN;
    /// One process.
    ProcInfo = "proc.info" (ProcInfoParams) -> ProcView, [Operator Process] Reads Once Finishes SHORT;
    /// The processes below one.
    ProcChildren = "proc.children" (ProcChildrenParams) -> ProcListResult, [Operator Process] Reads Once Finishes SHORT;
    /// The processes that have the same parent.
    ProcSiblings = "proc.siblings" (ProcInfoParams) -> ProcListResult, [Operator Process] Reads Once Finishes SHORT;
    /// Changes how early the tasks of a process get their turn.
    ProcNice = "proc.nice" (ProcNiceParams) -> Nothing, [Operator] Changes Once Finishes SHORT;

    /// Sends a message to a process or a queue.
    MessageSend = "message.send" (MessageSendParams) -> MessageSendResult, [Operator Process] Changes Once Finishes SHORT;
    /// Answers `{}`, then takes messages out of the caller's mailbox or a queue and sends each as `message.received`.
    MessageSubscribe = "message.subscribe" (MessageSubscribeParams) -> Nothing, [Operator Process] Changes Stream Drops SHORT;
    /// What waits in a mailbox, and stays there.
    MessageList = "message.list" (MessageListParams) -> MessageListResult, [Operator Process] Reads Once Finishes SHORT;
    /// Messages that nobody answered, and why.
    MessageDead = "message.dead" (MessageListParams) -> MessageDeadResult, [Operator] Reads Once Finishes SHORT;

    /// Opens a stream of bytes to the caller's parent or child, which must open it too. Its bytes pass over gRPC alone, as `skep.tree.ByteStreams/Open`.
    StreamOpen = "stream.open" (StreamOpenParams) -> Nothing, [Operator Process] Changes Stream Drops OPEN;

    /// Stores something for other processes.
    ArtifactStore = "artifact.store" (ArtifactStoreParams) -> ArtifactStoreResult, [Operator Process] Changes Once Finishes SHORT;
    /// What was stored, by id or by key.
    ArtifactRead = "artifact.read" (ArtifactReadParams) -> ArtifactReadResult, [Operator Process] Reads Once Finishes SHORT;
    /// What is stored and the caller may read.
    ArtifactList = "artifact.list" (ArtifactListParams) -> ArtifactListResult, [Operator Process] Reads Once Finishes SHORT;
    /// Removes one version of what was stored.
    ArtifactRemove = "artifact.remove" (ArtifactRemoveParams) -> Nothing, [Operator] Changes Once Finishes SHORT;

    /// Tells those above a process of a trouble, level by level, until somebody deals with it.
    EscalationRaise = "escalation.raise" (EscalationRaiseParams) -> EscalationRaiseResult, [Operator Process] Changes Once Finishes OPEN;
    /// What a process has used and may still use.
    ResourceUsage = "resource.usage" (ResourceUsageParams) -> ResourceUsageResult, [Operator Process] Reads Once Finishes SHORT;
    /// Asks those above for more of a budget.
    ResourceRequest = "resource.request" (ResourceRequestParams) -> ResourceRequestResult, [Operator Process] Changes Once Finishes OPEN;
    /// Writes a line to the log of a process.
    LogWrite = "log.write" (LogWriteParams) -> Nothing, [Operator Process] Changes Once Finishes SHORT;
    /// Reports a figure. `tokens_consumed` is counted as a claim.
    MetricReport = "metric.report" (MetricReportParams) -> Nothing, [Operator Process] Changes Once Finishes SHORT;
    /// Answers `{}`, then sends what happens in the process tree as `tree.event`.
    EventFollow = "event.follow" (EventFollowParams) -> Nothing, [Operator Process] Reads Stream Drops SHORT;

    /// Adds something that happens at set times.
    CronAdd = "cron.add" (CronAddParams) -> CronAddResult, [Operator Process] Changes Once Finishes SHORT;
    /// Removes it.
    CronRemove = "cron.remove" (CronIdParams) -> Nothing, [Operator Process] Changes Once Finishes SHORT;
    /// All of it, with when it ran and when it is due.
    CronList = "cron.list" (Nothing) -> CronListResult, [Operator Process] Reads Once Finishes SHORT;
    /// Runs it now, whenever it is due.
    CronRun = "cron.run" (CronIdParams) -> Nothing, [Operator] Changes Once Finishes OPEN;
    /// When an expression is due next.
    CronNext = "cron.next" (CronNextParams) -> CronNextResult, [Operator] Reads Once Finishes SHORT;

    /// What each worker of a zone works on and has in its queue, first things first.
    QueueList = "queue.list" (QueueListParams) -> QueueListResult, [Operator] Reads Once Finishes SHORT;
    /// Has a worker take nothing from its queue; what it works on goes on.
    QueuePause = "queue.pause" (QueueChangeParams) -> QueueListResult, [Operator] Changes Once Finishes SHORT;
    /// Has a worker take from its queue again.
    QueueResume = "queue.resume" (QueueChangeParams) -> QueueListResult, [Operator] Changes Once Finishes SHORT;
    /// Takes tasks out of the queue that nobody works on. What they had changed is kept.
    QueueRemove = "queue.remove" (QueueRemoveParams) -> Nothing, [Operator] Changes Once Finishes OPEN;

    /// Keeps a text in every later prompt of a worker, or gives one up, and lists them.
    WorkerPin = "worker.pin" (WorkerPinParams) -> WorkerPinResult, [Operator] Changes Once Finishes SHORT;

    /// Queues a task that is done by plans.
    SessionStart = "session.start" (SessionStartParams) -> TaskAddResult, [Operator] Changes Once Finishes SHORT;
    /// All sessions, or those of one zone: those under way first, then the newest.
    SessionList = "session.list" (SessionListParams) -> SessionListResult, [Operator] Reads Once Finishes SHORT;
    /// One session: its terms, its plan with how far each step is, what critics found, what it used.
    SessionShow = "session.show" (SessionShowParams) -> SessionView, [Operator] Reads Once Drops SHORT;
    /// Answers `{}`, then sends the records of a session as `journal.record`, from a record on, until the client hangs up.
    SessionWatch = "session.watch" (SessionWatchParams) -> Nothing, [Operator] Reads Stream Drops SHORT;
    /// Ends a session. What it changed is kept.
    SessionAbort = "session.abort" (TaskIdParams) -> SessionView, [Operator] Changes Once Finishes OPEN;
    /// Has a session go on where it stopped.
    SessionResume = "session.resume" (TaskIdParams) -> TaskContinueResult, [Operator] Changes Once Finishes OPEN;
    /// Checks the journal, and that a session's records make the session that is known; if wanted, executes it again on them. No tool runs.
    SessionReplay = "session.replay" (SessionReplayParams) -> SessionReplayResult, [Operator] Reads Once Finishes OPEN;
    /// Queues a session that goes on from the end of a step of another one, with its workspace as it was there.
    SessionFork = "session.fork" (SessionForkParams) -> TaskAddResult, [Operator] Changes Once Finishes OPEN;
    /// Has a plan made that nobody carries out.
    PlanMake = "plan.make" (PlanMakeParams) -> PlanMakeResult, [Operator] Changes Once Finishes OPEN;
    /// What critics and the policy in force have against a plan.
    PlanCheck = "plan.check" (PlanCheckParams) -> PlanCheckResult, [Operator] Reads Once Drops OPEN;
    /// What sessions taught.
    MemoryList = "memory.list" (Nothing) -> MemoryListResult, [Operator] Reads Once Finishes SHORT;
    /// One lesson, with the sessions that were told of it.
    MemoryShow = "memory.show" (MemoryShowParams) -> LessonView, [Operator] Reads Once Finishes SHORT;
    /// Forgets lessons.
    MemoryForget = "memory.forget" (MemoryForgetParams) -> MemoryListResult, [Operator] Changes Once Finishes SHORT;
    /// Which lessons a planner would be told for a text, and why these.
    MemoryWhy = "memory.why" (MemoryWhyParams) -> MemoryWhyResult, [Operator] Reads Once Finishes SHORT;

    /// In which mode and state a task is that is held to tests first, and what the kernel saw of its tests.
    DisciplineShow = "discipline.show" (DisciplineShowParams) -> DisciplineView, [Operator] Reads Once Finishes SHORT;
    /// Switches the mode of a task, if the policy lets it; a no means strict.
    DisciplineSwitch = "discipline.switch" (DisciplineSwitchParams) -> DisciplineView, [Operator] Changes Once Finishes SHORT;

    /// Queues a task.
    TaskAdd = "task.add" (TaskAddParams) -> TaskAddResult, [Operator] Changes Once Finishes SHORT;
    /// All tasks, or those of one zone.
    TaskList = "task.list" (TaskListParams) -> TaskListResult, [Operator] Reads Once Finishes SHORT;
    /// The skills that the roles of a project know.
    SkillList = "skill.list" (SkillListParams) -> SkillListResult, [Operator] Reads Once Finishes SHORT;
    /// One task.
    TaskShow = "task.show" (TaskIdParams) -> TaskView, [Operator] Reads Once Finishes SHORT;
    /// Answers when the task has ended or waits for a person; `timeout` after `timeout_ms`.
    TaskAwait = "task.await" (TaskAwaitParams) -> TaskView, [Operator] Reads Once Drops OPEN;
    /// Ends a task. What it changed is kept.
    TaskCancel = "task.cancel" (TaskIdParams) -> TaskView, [Operator] Changes Once Finishes OPEN;
    /// Has a task go on that failed, stopped or was cancelled.
    TaskRetry = "task.retry" (TaskRetryParams) -> TaskContinueResult, [Operator] Changes Once Finishes OPEN;
    /// Says something more to a task: a further turn in the same conversation, over its own changes.
    TaskSay = "task.say" (TaskSayParams) -> TaskContinueResult, [Operator] Changes Once Finishes OPEN;
    /// Destroys what is kept of a task.
    TaskDrop = "task.drop" (TaskIdParams) -> TaskView, [Operator] Changes Once Finishes SHORT;
    /// What a task changes.
    TaskDiff = "task.diff" (TaskIdParams) -> TaskDiffResult, [Operator] Reads Once Drops OPEN;
    /// A changed file itself, for what a diff does not show.
    TaskFile = "task.file" (TaskFileParams) -> TaskFileResult, [Operator] Reads Once Drops OPEN;
    /// A task's changes as a patch that `git apply` takes.
    TaskPatch = "task.patch" (TaskPatchParams) -> TaskPatchResult, [Operator] Reads Once Drops OPEN;
    /// Puts a task's changes into the project.
    TaskMerge = "task.merge" (TaskMergeParams) -> TaskMergeResult, [Operator] Changes Once Finishes OPEN;
    /// Runs a task's brain again on its recorded traffic and compares.
    TaskReplay = "task.replay" (TaskReplayParams) -> TaskReplayResult, [Operator] Changes Once Finishes OPEN;
    /// Runs a command over a task's files, in a room that is removed afterwards. Sends its output as `sandbox.output`, then answers.
    TaskTry = "task.try" (TaskTryParams) -> TaskTryResult, [Operator] Changes Stream Drops OPEN;
    /// Refuses a task's changes and closes its workspace. The changes are kept.
    TaskReject = "task.reject" (TaskRejectParams) -> TaskView, [Operator] Changes Once Finishes SHORT;

    /// Talks with a worker's brain on the brain's own terminal. Sends what it draws as `sandbox.output`; takes `sandbox.input`,
    /// `sandbox.resize` and `talk.leave`. Answers when what it changed waits for its merge.
    TalkOpen = "talk.open" (TalkOpenParams) -> TalkOpenResult, [Operator] Changes Duplex Finishes OPEN;
    /// Shows a talk that goes on, from its present screen to its end, as `sandbox.output`.
    TalkWatch = "talk.watch" (TalkWatchParams) -> Nothing, [Operator] Reads Stream Drops OPEN;

    /// What is kept of what workers wrote, newest first.
    TranscriptList = "transcript.list" (TranscriptListParams) -> TranscriptListResult, [Operator] Reads Once Finishes SHORT;
    /// Lines of transcripts, a page at a time: all, or those that have a text.
    TranscriptRead = "transcript.read" (TranscriptReadParams) -> TranscriptReadResult, [Operator] Reads Once Drops SHORT;

    /// All merges.
    MergeList = "merge.list" (Nothing) -> MergeListResult, [Operator] Reads Once Finishes SHORT;
    /// Reverts a task's merge, path by path; what was edited since stays and is named, for a further undo.
    MergeUndo = "merge.undo" (MergeUndoParams) -> MergeUndoResult, [Operator] Changes Once Finishes OPEN;
    /// Holds a commit and its trailers against the journal, and says what could not be checked.
    CommitVerify = "commit.verify" (CommitFacts) -> CommitReport, [Operator] Reads Once Finishes OPEN;

    /// What is under way: running commands with their last lines, and long work with how far it is.
    WorkList = "work.list" (WorkListParams) -> WorkListResult, [Operator] Reads Once Finishes SHORT;

    /// All tools.
    ToolList = "tool.list" (Nothing) -> ToolListResult, [Operator] Reads Once Finishes SHORT;
    /// Calls a tool. The policy decides, as it does for every process.
    CallRun = "call.run" (CallRunParams) -> CallRunResult, [Operator] Changes Once Finishes OPEN;
    /// Ends one call that runs.
    CallCancel = "call.cancel" (CallCancelParams) -> Nothing, [Operator] Changes Once Finishes SHORT;

    /// Questions to a person.
    ReviewList = "review.list" (ReviewListParams) -> ReviewListResult, [Operator] Reads Once Finishes SHORT;
    /// One question, with what a yes would change.
    ReviewShow = "review.show" (ReviewShowParams) -> ReviewView, [Operator] Reads Once Finishes SHORT;
    /// Answers a question.
    ReviewAnswer = "review.answer" (ReviewAnswerParams) -> ReviewView, [Operator] Changes Once Finishes SHORT;

    /// All grants, bans and tokens.
    GrantList = "grant.list" (Nothing) -> GrantListResult, [Operator] Reads Once Finishes SHORT;
    /// Revokes a grant (`g-1`) or token (`t-1`), or lifts a ban (`b-1`), at once.
    GrantRevoke = "grant.revoke" (GrantRevokeParams) -> Nothing, [Operator] Changes Once Finishes SHORT;
    /// Issues a token to the program at this end of the socket. The policy decides, as for a call.
    TokenIssue = "token.issue" (TokenIssueParams) -> TokenIssueResult, [Operator] Changes Once Finishes SHORT;

    /// Checks the project's policy files, or `text`, and puts nothing in force.
    PolicyCheck = "policy.check" (PolicyCheckParams) -> PolicyCheckResult, [Operator] Reads Once Finishes SHORT;
    /// Which rules would decide a call, and why.
    PolicyExplain = "policy.explain" (PolicyExplainParams) -> PolicyExplainResult, [Operator] Reads Once Finishes SHORT;
    /// What a changed policy would have decided about calls of the past.
    PolicyTrial = "policy.trial" (PolicyTrialParams) -> PolicyTrialResult, [Operator] Reads Once Finishes OPEN;
    /// Every version that was in force, newest first.
    PolicyLog = "policy.log" (PolicyLogParams) -> PolicyLogResult, [Operator] Reads Once Finishes SHORT;
    /// Shows the operator's own policy file; with its hash, puts it in force in every project.
    PolicyHome = "policy.home" (PolicyHomeParams) -> PolicyHomeResult, [Operator] Changes Once Finishes OPEN;
    /// Rules that would have saved questions.
    PolicySuggest = "policy.suggest" (PolicyLogParams) -> PolicySuggestResult, [Operator] Reads Once Finishes OPEN;

    /// Opens the gateway to a program outside rooms while this connection is open. Sends `model.closed` if the kernel closes it first.
    GatewayOpen = "gateway.open" (GatewayOpenParams) -> GatewayOpenResult, [Operator] Changes Stream Drops SHORT;
    /// Recorded traffic with models.
    CassetteList = "cassette.list" (CassetteListParams) -> CassetteListResult, [Operator] Reads Once Finishes SHORT;
    /// Asks a model for one word: a request of the operator's own, metered and recorded.
    ModelTry = "model.try" (ModelTryParams) -> ModelTryResult, [Operator] Changes Once Finishes OPEN;
    /// Brains: how each runs, who pays for it, its version, and what keeps it from working. Clients are asked for their versions.
    BrainList = "brain.list" (BrainListParams) -> BrainListResult, [Operator] Reads Once Finishes OPEN;
    /// What was spent on models.
    ModelUsage = "model.usage" (ModelUsageParams) -> ModelUsageResult, [Operator] Reads Once Finishes SHORT;
    /// All budgets, and who waits at a cap.
    BudgetList = "budget.list" (Nothing) -> BudgetListResult, [Operator] Reads Once Finishes SHORT;
    /// Sets or removes the budget of a process.
    BudgetSet = "budget.set" (BudgetSetParams) -> Nothing, [Operator] Changes Once Finishes SHORT;
    /// Adds to the budget of a process.
    BudgetGrant = "budget.grant" (BudgetGrantParams) -> Nothing, [Operator] Changes Once Finishes SHORT;
    /// Replaces an estimate by what the provider billed.
    BudgetReconcile = "budget.reconcile" (BudgetReconcileParams) -> Nothing, [Operator] Changes Once Finishes SHORT;

    /// Sandbox templates.
    SandboxTemplates = "sandbox.templates" (SandboxTemplatesParams) -> SandboxTemplatesResult, [Operator] Reads Once Finishes SHORT;
    /// Open sandboxes, and what runs in them.
    SandboxList = "sandbox.list" (Nothing) -> SandboxListResult, [Operator] Reads Once Finishes SHORT;
    /// Stops every process in a task's sandbox for a while.
    SandboxPause = "sandbox.pause" (TaskIdParams) -> Nothing, [Operator] Changes Once Finishes SHORT;
    /// Lets a paused sandbox continue.
    SandboxResume = "sandbox.resume" (TaskIdParams) -> Nothing, [Operator] Changes Once Finishes SHORT;
    /// Runs a command in a sandbox with its streams connected, then answers. A hang-up ends the command; its call is settled and recorded.
    SandboxRun = "sandbox.run" (SandboxRunParams) -> CallRunResult, [Operator] Changes Duplex Finishes OPEN;

    /// One page of records. The kernel may answer with fewer than `limit` to stay inside a frame; an empty page is the end.
    JournalRead = "journal.read" (RecordFilter) -> JournalReadResult, [Operator] Reads Once Drops SHORT;
    /// Checks the whole journal.
    JournalVerify = "journal.verify" (Nothing) -> JournalVerifyResult, [Operator] Reads Once Finishes OPEN;
    /// What earlier checks of the journal found.
    JournalDoubts = "journal.doubts" (Nothing) -> JournalDoubtsResult, [Operator] Reads Once Finishes SHORT;
    /// Marks findings up to a number as seen.
    JournalAcknowledge = "journal.acknowledge" (JournalAcknowledgeParams) -> JournalDoubtsResult, [Operator] Changes Once Finishes SHORT;
    /// Destroys the keys of blobs. The records that name them stay as they are.
    JournalForget = "journal.forget" (JournalForgetParams) -> JournalForgetResult, [Operator] Changes Once Finishes SHORT;
    /// Answers `{}`, then sends `journal.record` for each matching record after `after_seq` (from now on without it) until the client
    /// hangs up.
    JournalFollow = "journal.follow" (RecordFilter) -> Nothing, [Operator] Reads Stream Drops SHORT;
}

#[cfg(test)]
mod tests;
