//! Everything a journal can say.
//!
//! One table: a row gives the Rust name, the wire name, how heavy the fact weighs, and its fields. Every event names the process
//! it is about and, where there is one, the task; the journal indexes those two. **Invariant.** A kind is never reused with another
//! meaning: readers refuse what they do not know.

mod late;
mod stored;
#[macro_use]
mod table;
mod weight;

pub use weight::Weight;

use crate::world::transition::Transition;
use crate::{
    Alternative, Answer, ArtifactId, BanId, BlockReason, Budget, CallId, CallPattern, Code, CommitWish, ContextVerdict, CostParts,
    CoverageVerdict, CronId, CronSpec, Deadline, Discipline, DropReason, Ending, EscalationId, ExecuteOrder, ExecuteResult, Exemption,
    ForkPoint, GrantId, Hands, IterationRecord, LessonId, MeasuredCoverage, MergeId, MergePath, MessageBody, MessageId, MessagePriority,
    Mode, Observe, Pid, PlanCost, PlanFinding, ProcessExit, ProcessState, Program, Recipient, Remedy, ReplyStatus, RetryCause, ReviewId,
    Scope, SenderRelation, SessionTerms, Severity, ShownContext, Side, StepError, StepIncrement, StepRef, StepStatus, StreamId, TaskId,
    Terms, TestEvidence, TokenId, ToolList, TreeSignal, UsageTotals, UsedRoom, Visibility, WorkflowMark, WorkflowState, World, ZoneId,
};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use weight::is_zero;

events! {
    KernelStarted = "kernel.started", Security { version: String, boot: String }
    /// The last record of an orderly stop. What stands after it under the same seal was not written by a kernel.
    KernelStopped = "kernel.stopped", Security { reason: String }
    /// The seal was behind the head at start: the last records before a crash.
    JournalResealed = "journal.resealed", Security { unsealed: u64 }
    /// Verification at start found something; it is kept, never repaired.
    JournalDoubted = "journal.doubted", Security { what: String, why: String }
    /// A person has looked at the doubts up to this number; they are not shown any more.
    JournalAcknowledged = "journal.acknowledged", Security { upto: u64, by: String }
    /// The keys of these blobs are destroyed from here on: that they cannot be read is no loss, but was wanted.
    BlobForgotten = "blob.forgotten", Security { blobs: Vec<String>, by: String, reason: String }

    /// The operator's files changed and are in force; `sections` are the parts that are new.
    ConfigLoaded = "config.loaded", Security { files: Vec<String>, sections: Vec<String> }
    /// The operator's files changed and cannot be used: what was in force stays.
    ConfigRejected = "config.rejected", Security { files: Vec<String>, why: String }

    ZoneOpened = "zone.opened", Fact { zone: ZoneId, path: String, branch: String }
    /// The zone is a work tree of the repository with this slug, whose folder of git's own is `repository`. The first of it registers it.
    SiteRegistered = "site.registered", Fact { zone: ZoneId, site: String, repository: String }
    /// Nobody works in the zone any more, and nothing of it is remembered but these records.
    ZoneClosed = "zone.closed", Security { zone: ZoneId, by: String }
    /// The bundle in `blob` is in force for the zone from here on.
    PolicyUpdated = "policy.updated", Security { zone: ZoneId, blob: String, version: u64, by: String }

    /// The text in `blob` is in force as the operator's own policy, in every zone, from here on.
    HomePolicyUpdated = "policy.home_updated", Security { blob: String, version: u64, by: String }

    ProcSpawned = "proc.spawned", Fact { parent: Option<Pid>, name: String, role: String, zone: Option<ZoneId>, user: String,
        /// What it runs, for a process of the tree.
        #[serde(default, skip_serializing_if = "Option::is_none")] program: Option<Box<Program>>,
    }
    /// A worker was taken on for this brain, by the name that it was asked for.
    WorkerEnrolled = "worker.enrolled", Fact { brain: String, by: String }
    /// These texts, and no others, are part of every later prompt of the worker.
    WorkerPinned = "worker.pinned", Fact { pins: Vec<String>, by: String }
    /// The worker takes no task from its queue. What it works on goes on.
    QueuePaused = "queue.paused", Fact { by: String }
    QueueResumed = "queue.resumed", Fact { by: String }
    ProcExited = "proc.exited", Fact { killed: bool, reason: String,
        /// Of a process of the tree.
        #[serde(default, skip_serializing_if = "Option::is_none")] exit: Option<Box<ProcessExit>>,
    }
    ProcPaused = "proc.paused", Fact { reason: String }
    ProcResumed = "proc.resumed", Fact { by: String }
    /// Its program runs. `incarnation` counts its starts. With `remembers` it knows the ids of messages that it had before.
    ProcStarted = "proc.started", Fact { incarnation: u64, process: Option<i32>, address: Option<String>, confined: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        remembers: bool,
    }
    /// It waits for its next run; with `ended` its program has ended in order and is started for that.
    ProcSlept = "proc.slept", Fact { until_ms: Option<i64>, ended: bool, reason: String }
    ProcWoken = "proc.woken", Fact { reason: String }
    ProcBlocked = "proc.blocked", Fact { on: BlockReason, reason: String }
    ProcUnblocked = "proc.unblocked", Fact { reason: String }
    ProcSignalled = "proc.signalled", Fact { signal: TreeSignal, by: Pid, reason: String }
    /// Its program ended by itself and was not to. `error` has the last lines of its error output.
    ProcCrashed = "proc.crashed", Fact { incarnation: u64, code: Option<i32>, signal: Option<i32>, error: String }
    /// The supervisor starts it again after a while.
    ProcRestarting = "proc.restarting", Fact { attempt: u32, delay_ms: u64, by: String }
    /// It has another parent, because its own ends.
    ProcAdopted = "proc.adopted", Fact { parent: Pid, was: Pid }
    /// Its end was taken note of, and it leaves the table.
    ProcCollected = "proc.collected", Fact { by: Pid }
    /// What it wants back at its next start.
    ProcSnapshotted = "proc.snapshotted", Fact { blob: String, bytes: u64 }
    /// Its heartbeat. `tokens` is the sum of what its present incarnation says it used, which only adds, and only where it has not used the gateway.
    ProcReported = "proc.reported", Progress { state: Option<ProcessState>, context_permille: Option<u32>, tokens: Option<u64> }

    /// What it says of its work. `event_type` of its fields names what followers see.
    ProcLogged = "proc.logged", Progress { level: String, message: String,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        fields: BTreeMap<String, String>,
    }

    /// `pid` is the sender. A body of a few bytes stands beside the record, under the message's id, and so does that of a copy.
    MessageSent = "message.sent", Fact {
        message: MessageId, to: Recipient, relation: SenderRelation, kind: String, priority: MessagePriority, bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")] deadline_ms: Option<i64>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        requires_ack: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")] reply_to: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] blob: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] copy_of: Option<MessageId>,
        /// Never on record: it is kept beside the record as long as the message is there.
        #[serde(skip)]
        body: MessageBody,
    }
    /// `pid` is the receiver, and has it and those that came with it in hand from here on.
    MessageDelivered = "message.delivered", Fact { message: MessageId, incarnation: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        further: Vec<MessageId>,
    }
    MessageAnswered = "message.answered", Fact { message: MessageId, status: ReplyStatus,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        further: Vec<MessageId>,
        #[serde(default, skip_serializing_if = "Option::is_none")] reply: Option<String>,
    }
    /// It is a dead letter, and so are those with it. What its receiver's end makes one has no record of its own.
    MessageDropped = "message.dropped", Fact { message: MessageId, why: DropReason,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        further: Vec<MessageId>,
    }

    ArtifactStored = "artifact.stored", Fact {
        artifact: ArtifactId, key: String, version: u32, visibility: Visibility, content_type: String, blob: String, bytes: u64,
    }
    ArtifactRemoved = "artifact.removed", Fact { artifact: ArtifactId }

    /// `pid` is who has the trouble, `to` who hears of it first.
    EscalationRaised = "escalation.raised", Fact {
        escalation: EscalationId, to: Pid, issue: String, severity: Severity,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        context: BTreeMap<String, String>,
        auto: bool,
    }
    /// `pid` cannot deal with it. From the top it goes to a person, as a question.
    EscalationPassed = "escalation.passed", Fact { escalation: EscalationId, to: Option<Pid>, review: Option<ReviewId> }
    EscalationHandled = "escalation.handled", Fact { escalation: EscalationId, response: String }

    /// Both ends opened it, `pid` first. Its bytes are no records.
    StreamOpened = "stream.opened", Fact { stream: StreamId, peer: Pid, name: String }
    /// Bytes that reached the other end, from the one who opened it first and back. Unknown where the kernel ended before it.
    StreamClosed = "stream.closed", Fact { stream: StreamId, sent: Option<u64>, received: Option<u64>, why: String }

    /// One with the number of another takes its place.
    CronAdded = "cron.added", Fact { cron: CronId, spec: Box<CronSpec>, next_ms: Option<i64> }
    CronRemoved = "cron.removed", Fact { cron: CronId, by: String }
    /// It was due at `due_ms`. One that is passed over counts as no run.
    CronFired = "cron.fired", Fact { cron: CronId, due_ms: i64, next_ms: Option<i64>, skipped: bool }
    CronEnded = "cron.ended", Fact { cron: CronId, exit_code: i32, output: String }

    /// `pid` asks for more of what its budget caps; `what` is a cap by its name.
    ResourceAsked = "resource.asked", Fact { of: Pid, what: String, amount: u64, reason: String }
    /// From the account that its budget was carved from.
    ResourceGiven = "resource.given", Fact { from: Pid, what: String, amount: u64 }

    TaskQueued = "task.queued", Fact {
        /// None for a task of a process of the tree.
        #[serde(default = "ZoneId::none", skip_serializing_if = "ZoneId::is_none")]
        zone: ZoneId,
        mode: Mode, prompt: String, brain: String, priority: i64, calls_max: Option<u64>, original: Option<String>,
        /// What it writes is dropped at its end, whatever end that is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        discard: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")] order: Option<Box<ExecuteOrder>>,
    }
    /// The operator said what kind of caller its process is while it works on this.
    TaskTagged = "task.tagged", Security { tags: Vec<String>, by: String }
    /// It starts when those before it have finished, and works for so long at most.
    TaskScheduled = "task.scheduled", Fact {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        after: Vec<TaskId>,
        #[serde(default, skip_serializing_if = "Option::is_none")] timeout_ms: Option<u64>,
    }
    /// It has another place in its queue.
    TaskPrioritized = "task.prioritized", Fact { priority: i64, by: String }
    /// Its worker does another task first, and then goes on with it.
    TaskPaused = "task.paused", Fact { until: TaskId, by: String }
    /// Its calls may use only tools that are on every one of these lists.
    TaskNarrowed = "task.narrowed", Security { lists: Vec<ToolList>, by: String }
    /// Its prompt, or the command that it runs, is a skill of a role; `role` is `None` for the worker that every project has.
    SkillUsed = "skill.used", Fact { role: Option<String>, skill: String, params: BTreeMap<String, Value> }
    TaskStarted = "task.started", Fact { episode: u32 }
    /// The program of a process of the tree has its task: an interruption reaches it from here on.
    TaskTaken = "task.taken", Fact { incarnation: u64 }
    TaskParked = "task.parked", Fact { review: ReviewId }
    TaskFinished = "task.finished", Fact { summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] result: Option<Box<ExecuteResult>>,
    }
    TaskFailed = "task.failed", Fact { reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] result: Option<Box<ExecuteResult>>,
    }
    TaskCancelled = "task.cancelled", Fact { by: String }
    /// It could not go on, and may be retried.
    TaskStopped = "task.stopped", Fact { reason: String, cause: RetryCause,
        /// What lets it go on; a face says how.
        #[serde(default, skip_serializing_if = "Option::is_none")] remedy: Option<Box<crate::Remedy>>,
    }
    /// A person has it go on, in the same conversation and with its kept work; with `prompt`, told something more. `calls` is a fresh
    /// allowance. With `propose` no brain works on it: its kept changes are proposed.
    TaskContinued = "task.continued", Fact {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] prompt: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] original: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] calls: Option<u64>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        propose: bool,
    }
    /// The task is a session: its work is done by plans, within these terms. `of` is the session that delegated it.
    /// `original` names its plan file in the vault, where what is kept of it lacks a secret.
    SessionCreated = "session.created", Security { terms: Box<SessionTerms>,
        #[serde(default, skip_serializing_if = "Option::is_none")] of: Option<TaskId>,
        #[serde(default, skip_serializing_if = "Option::is_none")] original: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] forked: Option<ForkPoint>,
    }
    /// The planner is asked for a plan; `blob` has what it is told. `round` counts what critics sent back.
    PlannerRequested = "planner.requested", Fact { iteration: u32, round: u32, planner: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] blob: Option<String>,
    }
    /// What the planner said. `original` is the name of its exact words in the vault, where `blob` lacks a secret.
    PlanReceived = "plan.received", Fact { iteration: u32, round: u32, blob: String, bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")] original: Option<String>,
    }
    /// What the critics found, and what the plan would cost at most. With `off` nobody looked.
    PlanCriticized = "plan.criticized", Fact { iteration: u32, round: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")] findings: Vec<PlanFinding>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")] off: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")] most: Option<Box<PlanCost>>,
    }
    /// What the planner said is no plan, or one that the critics do not let pass.
    PlanRejected = "plan.rejected", Fact { iteration: u32, round: u32, findings: Vec<PlanFinding> }
    /// Its steps are carried out from here on. `blob` is the plan, `steps` how many there are; none is the end of an agentic session.
    PlanAccepted = "plan.accepted", Fact { plan: u32, iteration: u32, blob: String, goal: String, steps: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")] original: Option<String>,
    }
    /// The active plan is given up: no step of it begins any more.
    PlanReplaced = "plan.replaced", Fact { plan: u32, reason: String }
    StepStarted = "step.started", Fact { plan: u32, step: String, tool: String, attempt: u32 }
    /// How a step ended. `call` is the call that it was last; `kept` what its session's workspace held then, beside what was kept before.
    StepFinished = "step.finished", Fact { plan: u32, step: String, status: StepStatus, attempts: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")] call: Option<CallId>,
        #[serde(default, skip_serializing_if = "Option::is_none")] error: Option<Box<StepError>>,
        #[serde(default, skip_serializing_if = "Option::is_none")] kept: Option<Box<StepIncrement>>,
    }
    /// An iteration is over, and this is what is known of it: where the session goes on.
    SessionCheckpointed = "session.checkpointed", Fact { iteration: Box<IterationRecord> }
    LimitExceeded = "limit.exceeded", Fact { limit: String, used: u64, max: u64 }
    FutilityDetected = "futility.detected", Fact { pattern: String, reason: String }
    ContextAssessed = "context.assessed", Fact { verdict: ContextVerdict, used: u64, budget: u64 }
    /// What was found until here is told to the planner as this summary.
    ContextSummarized = "context.summarized", Fact { blob: String, bytes: u64 }
    /// A part of the work is done by a session of its own, which may use so much.
    DelegationStarted = "delegation.started", Fact { child: TaskId, tokens: u64, micros: u64 }
    DelegationFinished = "delegation.finished", Fact { child: TaskId, ok: bool, findings: String }
    LessonLearned = "lesson.learned", Fact { lesson: LessonId, summary: String, ok: bool, text: String, tools: Vec<String> }
    /// The planner is told these.
    LessonRecalled = "lesson.recalled", Fact { lessons: Vec<LessonId> }
    LessonForgotten = "lesson.forgotten", Security { lessons: Vec<LessonId>, by: String, reason: String }

    /// How strictly the task is held to tests first, from here on.
    DisciplineSwitched = "discipline.switched", Security { mode: Discipline, was: Option<Discipline>, by: String, reason: String }
    /// Its work goes on in another state. `snapshot` is a blob that lists what it had changed by then.
    WorkflowEntered = "workflow.entered", Security { mode: Discipline, from: WorkflowState, to: WorkflowState, why: String, snapshot: Option<String> }
    /// The kernel itself ran the tests on exactly these files.
    TestsRan = "tests.ran", Security { mode: Discipline, state: WorkflowState, run: Box<TestEvidence> }
    /// A merge that was measured is in the project. From here on the zone has this baseline, and explore mode is locked or free.
    CoverageJudged = "coverage.judged", Security { zone: ZoneId, merge: MergeId, mode: Discipline, verdict: CoverageVerdict,
        now: MeasuredCoverage, baseline: u64,
        /// Blob with the files of the baseline.
        baseline_files: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] was: Option<u64>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")] locked: bool,
    }
    ExemptionGranted = "exemption.granted", Security { exemption: Box<Exemption> }
    ExemptionRefused = "exemption.refused", Security { category: String, paths: Vec<String>, reason: String, why: String }
    /// At the end of a phase these held what the phase did not allow, and hold again what they did before it.
    FilesPutBack = "files.put_back", Security { state: WorkflowState, paths: Vec<String>, count: u64 }
    WorkflowStalled = "workflow.stalled", Fact { state: WorkflowState, why: String }
    /// Its brain is asked for this artifact; until that is over, the task may change nothing.
    HookStarted = "hook.started", Fact { artifact: String }
    /// What came of it. A text that is too long for a record is whole in `blob`.
    ArtifactKept = "artifact.kept", Fact {
        artifact: String, text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] blob: Option<String>,
        bytes: u64,
    }
    /// Nothing came of it; the task ends without this artifact.
    HookFailed = "hook.failed", Fact { artifact: String, reason: String }
    /// Its changes that are not in the project are in this blob, in place of all that was kept before. `left` files were too much.
    WorkKept = "work.kept", Fact {
        blob: String, files: u64, bytes: u64,
        #[serde(default, skip_serializing_if = "is_zero")] left: u64,
    }
    /// What was kept is gone: a person dropped it, its time was over, or all of it is in the project.
    WorkDropped = "work.dropped", Security { by: String, reason: String }

    /// From `since_us` on, by the clock that stamps files, something may run in the room.
    WorkspaceOpened = "workspace.opened", Fact { head: Option<String>, since_us: i64 }
    /// What the project held then. A file that was changed between `since_us` and `until_us` has no base.
    WorkspaceBased = "workspace.based", Fact { head: Option<String>, blob: String, until_us: i64 }
    WorkspaceClosed = "workspace.closed", Fact { }
    WorkspacePaused = "workspace.paused", Fact { by: String }
    WorkspaceResumed = "workspace.resumed", Fact { by: String }

    CallAdmitted = "call.admitted", Fact {
        call: CallId, tool: String, input: Value, digest: String, bind: String, hands: Hands, read_only: bool, rules: Vec<String>, grant: Option<GrantId>, token: Option<TokenId>,
        paths: Vec<String>, size: Option<u64>, of: Option<CallId>, up: Option<Deadline>,
        /// The room that its job has, if it has one; `None` in records from before this was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")] rooms: Option<Vec<UsedRoom>>,
        /// How real it was, where it was not made in earnest: `dry_run` or `mock`.
        #[serde(default, skip_serializing_if = "Option::is_none")] run_mode: Option<String>,
        /// The step of a session that it is.
        #[serde(default, skip_serializing_if = "Option::is_none")] step: Option<StepRef>,
        #[serde(default, skip_serializing_if = "Option::is_none")] workflow: Option<WorkflowMark>,
    }
    CallRefused = "call.refused", Security {
        call: CallId, tool: String, input: Value, digest: String, code: Code, reason: String, hint: Option<String>, rules: Vec<String>,
        paths: Vec<String>, size: Option<u64>, of: Option<CallId>,
        #[serde(default, skip_serializing_if = "Option::is_none")] detail: Option<Box<Value>>,
        /// What the operator can do about it; records from before it was typed have it in `hint`.
        #[serde(default, skip_serializing_if = "Option::is_none")] remedy: Option<Box<Remedy>>,
        /// The step of a session that it is.
        #[serde(default, skip_serializing_if = "Option::is_none")] step: Option<Box<StepRef>>,
        #[serde(default, skip_serializing_if = "Option::is_none")] workflow: Option<WorkflowMark>,
    }
    /// A read met a passing fault and is made again.
    CallRetried = "call.retried", Fact { call: CallId, attempt: u32, why: String }
    CallFinished = "call.finished", Fact { call: CallId, ok: bool, output: Value, blob: Option<String>, blob_bytes: u64, ms: u64 }
    /// The kernel went down between admission and outcome.
    CallLost = "call.lost", Security { call: CallId, tool: String, why: String }

    /// `whole` is a keyed digest of the exact input, where `input` is not all of it.
    ReviewAsked = "review.asked", Security {
        review: ReviewId, tool: String, input: Value, bind: String, like: CallPattern, reasons: Vec<String>, rules: Vec<String>,
        paths: Vec<String>, size: Option<u64>, zone: Option<ZoneId>,
        whole: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] room: Option<UsedRoom>,
    }
    ReviewAnswered = "review.answered", Security {
        review: ReviewId, answer: Answer, by: String, reason: Option<String>, alternative: Option<Alternative>,
    }
    GrantGiven = "grant.given", Security {
        grant: GrantId, scope: Scope, what: CallPattern, terms: Terms, review: Option<ReviewId>, by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] shown: Option<ShownContext>,
    }
    GrantRevoked = "grant.revoked", Security { grant: GrantId, by: String }
    BanGiven = "ban.given", Security {
        ban: BanId, scope: Scope, what: CallPattern, reason: String, alternative: Option<Alternative>, review: Option<ReviewId>, by: String,
    }
    BanLifted = "ban.lifted", Security { ban: BanId, by: String }
    TokenIssued = "token.issued", Security { token: TokenId, claims: Value, ops: u32, until: Deadline }
    TokenRevoked = "token.revoked", Security { token: TokenId, by: String }
    /// A grant asked for more to be written down about this call.
    CallObserved = "call.observed", Fact {
        call: CallId, grant: GrantId, level: Observe, bytes_in: u64, bytes_out: u64, ms: u64, detail: Option<Value>,
    }

    MergeProposed = "merge.proposed", Fact { merge: MergeId, digest: String, frozen: String, paths: Vec<MergePath>, summary: String }
    /// `snapshot` is the blob with what each path held before and holds after: the log of the operation, and the way back.
    MergeStarted = "merge.started", Security {
        merge: MergeId, by: String, snapshot: Option<String>,
        /// Uses of grants that it rests on, one entry for each, and when that was.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<GrantId>,
        #[serde(default, skip_serializing_if = "Option::is_none")] up: Option<Deadline>,
    }
    MergeFinished = "merge.finished", Security { merge: MergeId, paths: Vec<MergePath> }
    MergeRejected = "merge.rejected", Security { merge: MergeId, by: String, reason: String }
    /// A person chose between two versions of some paths, or which paths go in at all, or that a commit is made of them.
    MergeResolved = "merge.resolved", Security {
        merge: MergeId,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        sides: BTreeMap<String, Side>,
        /// Paths and folders that go in; all without any.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        only: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] commit: Option<CommitWish>,
        by: String,
    }
    /// The commit of a merge is in the repository, and `reference` is to go from `parent` to it. A boot that finds no more than this goes on.
    MergeCommitting = "merge.committing", Security {
        merge: MergeId, reference: String, commit: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] parent: Option<String>,
    }
    /// A commit of exactly the merged paths was made, and `reference` leads to it.
    MergeCommitted = "merge.committed", Security { merge: MergeId, reference: String, commit: String, paths: Vec<String> }
    /// The merge is in, and no commit was made of it.
    MergeUncommitted = "merge.uncommitted", Security { merge: MergeId, reason: String }
    /// The kernel ran the trusted test command on exactly the changes of this digest.
    MergeTested = "merge.tested", Security {
        merge: MergeId, digest: String, command: Vec<String>, exit: Option<i32>, passed: Option<u64>, failed: Option<u64>, output: String, ok: bool,
    }
    /// Commits that were made in a task's room are in the repository, and `reference`, which is no branch, leads to the last of them.
    CommitsImported = "commits.imported", Security { reference: String, commit: String, count: u64 }
    /// They stay where they are: a path of one may not change, or they cannot be read.
    CommitsRefused = "commits.refused", Security { reason: String }
    /// The operator ran a command over what a task had made, in a room of its own.
    TaskTried = "task.tried", Fact { command: Vec<String>, ports: Vec<u16> }
    MergeUndoBegun = "merge.undo_begun", Security {
        merge: MergeId, by: String,
        /// What denied it, each with its rules; a person typed a phrase to pass over that.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        overrode: Vec<String>,
    }
    MergeUndone = "merge.undone", Security { merge: MergeId, paths: Vec<MergePath> }

    /// A connection out of a room ended. The call is the one that let it out; bytes are as the room saw them.
    NetClosed = "net.closed", Fact { call: CallId, host: String, port: u16, method: Option<String>, up: u64, down: u64, ms: u64, end: String }
    BudgetSet = "budget.set", Security { budget: Option<Budget>, by: String }
    /// More of what a budget caps; `timed` is of each day and each hour.
    BudgetGranted = "budget.granted", Security { tokens: BTreeMap<String, u64>, micros: u64, by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] timed: Option<Box<Budget>> }
    /// Most of a budget is spent.
    BudgetWarned = "budget.warned", Fact { what: String, used: u64, cap: u64 }
    /// A request waits for a person to grant more.
    BudgetAsked = "budget.asked", Fact { of: Pid, what: String, cap: u64, used: u64, need: u64 }
    /// What an admitted request may cost at most, taken from the caller and all its ancestors.
    ModelReserved = "model.reserved", Fact { call: CallId, provider: String, model: String, tier: String, tokens: u64, micros: u64, lease: Option<CallId> }
    /// Set aside for the next requests of a process, from its budget and all above it; named by the call that it was first carved with.
    BudgetLeased = "budget.leased", Fact { lease: CallId, tier: String, tokens: u64, micros: u64 }
    /// What was left of it is for everybody again.
    BudgetReturned = "budget.returned", Fact { lease: CallId, tokens: u64, micros: u64 }
    /// The kernel died with it, and what was left counts as spent. Recorded by versions before `model.held`.
    BudgetLost = "budget.lost", Fact { lease: CallId, tokens: u64, micros: u64 }
    /// What a process's estimates really were, as somebody read it off a bill: tokens of these tiers, and money.
    BudgetReconciled = "budget.reconciled", Security { tokens: BTreeMap<String, u64>, micros: Option<u64>, by: String }
    /// What it did cost: as reported, or counted from what had come. `held` is what it may have cost beyond that.
    ModelUsed = "model.used", Fact {
        call: CallId, provider: String, model: String, tier: String, figures: UsageTotals, charged_tokens: u64, charged_micros: u64,
        status: Option<u16>, first_byte_ms: Option<u64>, asked: Option<String>, answered: Option<String>, notes: Vec<String>,
        #[serde(default, skip_serializing_if = "is_zero")]
        held_tokens: u64,
        #[serde(default, skip_serializing_if = "is_zero")]
        held_micros: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")] ended: Option<Ending>,
        /// What of `charged_micros` is which; `None` where the price is not known, and in records from before this was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")] parts: Option<CostParts>,
    }
    /// The kernel died with a request on its way: what it may have cost counts against the caps for a day. `lease` paid for a request
    /// that left no other record.
    ModelHeld = "model.held", Fact {
        call: CallId, provider: String, model: String, tier: String, tokens: u64, micros: u64, lease: Option<CallId>, why: String,
    }
    /// So much of what is reserved or held for a request is for everybody again.
    ModelReleased = "model.released", Fact { call: CallId, tokens: u64, micros: u64, why: String }

    /// The traffic with models is taken down in this file.
    CassetteStarted = "cassette.started", Fact { file: String }
    /// The task is run to be compared with another; nothing of it is ever merged.
    ReplayStarted = "replay.started", Fact { of: TaskId }
    /// What differed first, if anything did.
    ReplayFinished = "replay.finished", Fact { of: TaskId, calls: u64, requests: u64, difference: Option<String> }

    BrainSaid = "brain.said", Progress { text: String }
    /// What a brain needs to go on after a crash; with `anew`, instead of all that was kept before.
    BrainRemembered = "brain.remembered", Fact { blob: String, anew: bool }
    /// What a vendor's client wrote, line by line, in this blob.
    BrainTranscribed = "brain.transcribed", Fact { blob: String, lines: u64, bytes: u64 }
    /// A vendor's client works on the task: one that was booted, or with `reused` one that had worked for the same worker before. `why` says
    /// why it was booted, or which task it had before.
    BrainServed = "brain.served", Fact { process: i32, reused: bool, why: String }
    /// A person talked with a brain on its own terminal. `blob` has what it drew, as it came, `dropped` bytes of it left out. With `ungated`
    /// its own tools did not ask at the door: the room alone held them.
    BrainTalked = "brain.talked", Security {
        blob: Option<String>, bytes: u64,
        #[serde(default, skip_serializing_if = "is_zero")]
        dropped: u64,
        ungated: bool, end: String,
    }
    /// Records of this kind were dropped because the process made too many.
    RecordsDropped = "records.dropped", Fact { kind: String, count: u64 }
}

#[cfg(test)]
mod tests;
