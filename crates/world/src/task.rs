//! A task: a piece of work with a state.

use crate::{Budget, ExecuteOrder, ExecuteResult, MergeId, Pid, ReviewId, Session, TaskId, UsedRoom, Workflow, ZoneId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    /// The process that does it.
    pub pid: Pid,
    /// None for a task of a process of the tree.
    #[serde(default = "ZoneId::none", skip_serializing_if = "ZoneId::is_none")]
    pub zone: ZoneId,
    pub mode: Mode,
    pub prompt: String,
    /// Name of the prompt in the vault, where the record has it without its secrets.
    #[serde(default)]
    pub original: Option<String>,
    /// Which mind does it: `script:FILE`, later a vendor's name. Empty for an operator's call.
    pub brain: String,
    /// Higher first; equal ones in the order they came.
    pub priority: i64,
    pub queued_ms: i64,
    pub ended_ms: Option<i64>,
    pub state: TaskState,
    /// How often a brain was started on it: more than one after a crash.
    pub episodes: u32,
    /// Calls it may still make; `None` is no limit.
    pub calls_left: Option<u64>,
    /// What its requests to models may use, beside the caps of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Calls that have their outcome. A scripted brain resumes behind them.
    pub calls_settled: u64,
    /// Bytes of its calls' outputs that are kept as blobs.
    pub blob_bytes: u64,
    /// Binds of calls that changed something and whose outcome is not known: asked again, they go to a person.
    pub lost: Vec<String>,
    /// Why it is not known, by bind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_why: BTreeMap<String, String>,
    /// Blobs with what its brain gave to be kept, oldest first.
    #[serde(default)]
    pub memory: Vec<String>,
    /// Where its traffic with models is recorded: a file under `cassettes/`.
    #[serde(default)]
    pub cassette: Option<String>,
    /// The task that it is a replay of.
    #[serde(default)]
    pub replays: Option<TaskId>,
    /// As a replay it was compared with that task, and what came of it is on record.
    #[serde(default)]
    pub compared: bool,
    /// That comparison found a difference.
    #[serde(default)]
    pub differs: bool,
    /// What the operator called its caller, for rules about `caller_tag`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Its calls may use only tools that are on every one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_lists: Vec<ToolList>,
    /// What was pinned to its worker when it was last begun: a replay of it has the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// The skill that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// What its brain is asked for at its end. Meanwhile it may change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// What it was asked for at its end, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, Artifact>,
    /// The rooms that its jobs had, as rules see them.
    #[serde(default)]
    pub rooms: BTreeSet<UsedRoom>,
    /// A job of it ran in a room that no record names: one from before rooms were written down.
    #[serde(default = "unknown")]
    pub in_unknown_room: bool,
    /// Processes beside its own that changed something in its rooms: a command of the operator's, or the operator in the task of a brain.
    #[serde(default)]
    pub workers: BTreeSet<Pid>,
    /// What it writes is dropped at its end, whatever end that is.
    #[serde(default)]
    pub discard: bool,
    pub workspace: Option<TaskWorkspace>,
    pub merge: Option<MergeId>,
    /// Its changes that are not in the project, as blobs; `None` where there are none.
    #[serde(default)]
    pub kept: Option<KeptWork>,
    /// What a person said to it after its prompt, oldest first.
    #[serde(default)]
    pub further: Vec<FurtherPrompt>,
    /// How often it was taken up again after it had ended or stopped.
    #[serde(default)]
    pub continued: u32,
    /// It was taken up again only to propose its kept changes: no brain works on it.
    #[serde(default)]
    pub proposes_kept: bool,
    /// Tasks that must have finished before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    /// The task that its worker does first, as it was interrupted for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_for: Option<TaskId>,
    /// How long it may be worked on; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long it was worked on before the present stretch, and since when that goes.
    #[serde(default)]
    pub worked_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_since_ms: Option<i64>,
    /// What the brain said at the end, or why it failed.
    pub summary: Option<String>,
    /// What lets it go on, where it has stopped and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Box<crate::Remedy>>,
    /// Why it has stopped, while it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<RetryCause>,
    /// The incarnation of its process's program that has it, for a process of the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<u64>,
    /// What a process of the tree is to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Box<ExecuteOrder>>,
    /// What came of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<ExecuteResult>>,
    /// How far its plans are, where it is done by plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<Session>>,
    /// How far it is, where it is held to tests first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Box<Workflow>>,
}

/// The question of a task that needs input. The text of the yes is the input.
pub const TASK_INPUT: &str = "task.input";

impl Task {
    /// What it may do now: while its brain is asked for an artifact, read and answer.
    pub fn present_mode(&self) -> Mode {
        if self.hook.is_some() { Mode::Ask } else { self.mode }
    }
}

/// The only tools that somebody lets a task have: names, or `fs.*` for all of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolList {
    /// Whose list it is: `role reviewer`, `skill code.review`, `the task`.
    pub of: String,
    pub tools: Vec<String>,
}

impl ToolList {
    /// Is this tool on the list?
    pub fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|entry| match entry.strip_suffix('*') {
            Some(kind) => tool.starts_with(kind),
            None => entry == tool,
        })
    }

    /// Does it say so of this tool, and not of all tools?
    pub fn names(&self, tool: &str) -> bool {
        let entries = self.tools.iter().filter(|entry| *entry != EVERY_TOOL);
        ToolList { of: String::new(), tools: entries.cloned().collect() }.has(tool)
    }
}

/// The entry of a list that leaves every tool.
pub const EVERY_TOOL: &str = "*";

/// What a task was asked for at its end, or why it has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Artifact {
    /// A text that is too long for a record is whole in `blob`.
    Kept {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<String>,
        bytes: u64,
    },
    Failed {
        reason: String,
    },
}

impl Task {
    /// When its time is over, if it has a limit and is worked on.
    pub fn times_out_ms(&self) -> Option<i64> {
        let left = self.timeout_ms?.saturating_sub(self.worked_ms);
        Some(self.running_since_ms?.saturating_add(i64::try_from(left).unwrap_or(i64::MAX)))
    }

    /// Takes note that nobody works on it from `at_ms` on.
    pub(crate) fn rest(&mut self, at_ms: i64) {
        if let Some(since_ms) = self.running_since_ms.take() {
            let stretch_ms = u64::try_from(at_ms.saturating_sub(since_ms)).unwrap_or(0);
            self.worked_ms = self.worked_ms.saturating_add(stretch_ms);
            if let Some(session) = self.session.as_deref_mut() {
                session.worked_ms = session.worked_ms.saturating_add(stretch_ms);
            }
        }
    }
}

/// The tag of work in which a brain used tools of its own that did not ask at the door.
pub const UNGATED: &str = "ungated";

/// A task's changes, kept as blobs after its workspace was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWork {
    /// Lists the paths, their contents and what each is measured against.
    pub blob: String,
    pub files: u64,
    /// Bytes of the contents.
    pub bytes: u64,
    /// Files that were too much to be kept.
    #[serde(default)]
    pub left: u64,
    pub since_ms: i64,
}

/// A further turn of a conversation: what a person said after the task's own prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FurtherPrompt {
    pub prompt: String,
    /// Name of the prompt in the vault, where the record has it without its secrets.
    #[serde(default)]
    pub original: Option<String>,
    /// Calls that had their outcome when this turn began; `None` where the turn before it still went on.
    #[serde(default)]
    pub settled: Option<u64>,
}

/// Of a task in a snapshot that does not say.
fn unknown() -> bool {
    true
}

/// May the work change anything?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Read and answer; nothing merges.
    Ask,
    /// Change files; the changes wait for their merge.
    Act,
    /// One call of the operator's own.
    Call,
    /// Work of a process of the tree, in no zone.
    Execute,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Ask => "ask",
            Mode::Act => "act",
            Mode::Call => "call",
            Mode::Execute => "execute",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum TaskState {
    Queued,
    Running,
    /// Waits for a person; the process is free for nothing else in this zone.
    Parked {
        review: ReviewId,
    },
    /// It could not go on, and going on later can help: it waits until a person has it retried. Its work is kept.
    Stopped,
    Done,
    Failed,
    Cancelled,
}

/// Why a task could not go on although nothing is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryCause {
    /// Its model could not be reached, or did not let it in.
    Model,
    /// A cap of money or tokens.
    Budget,
    /// It made all the calls that it may make.
    Calls,
    /// It made no move for too long, or took longer than it may.
    Time,
    /// A task that it was to come after failed.
    After,
    /// The kernel, a room or a disk failed.
    Fault,
}

impl RetryCause {
    pub fn as_str(self) -> &'static str {
        match self {
            RetryCause::Model => "model",
            RetryCause::Budget => "budget",
            RetryCause::Calls => "calls",
            RetryCause::Time => "time",
            RetryCause::After => "after",
            RetryCause::Fault => "fault",
        }
    }
}

impl TaskState {
    /// Does nobody work on it, and nothing wait for an answer? Its workspace is closed then.
    pub fn at_rest(self) -> bool {
        TaskStatus::from(self).at_rest()
    }

    pub fn ended(self) -> bool {
        TaskStatus::from(self).ended()
    }

    pub fn as_str(self) -> &'static str {
        TaskStatus::from(self).as_str()
    }
}

/// A task's state without what it waits for, as faces name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Queued,
    Running,
    /// Waits for a person; the view names the review.
    Parked,
    /// Could not go on, and waits to be retried.
    Stopped,
    Done,
    Failed,
    Cancelled,
}

impl TaskStatus {
    /// Does nobody work on it, and nothing wait for an answer?
    pub fn at_rest(self) -> bool {
        self.ended() || self == TaskStatus::Stopped
    }

    pub fn ended(self) -> bool {
        matches!(self, TaskStatus::Done | TaskStatus::Failed | TaskStatus::Cancelled)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Queued => "queued",
            TaskStatus::Running => "running",
            TaskStatus::Parked => "parked",
            TaskStatus::Stopped => "stopped",
            TaskStatus::Done => "done",
            TaskStatus::Failed => "failed",
            TaskStatus::Cancelled => "cancelled",
        }
    }
}

impl From<TaskState> for TaskStatus {
    fn from(state: TaskState) -> TaskStatus {
        match state {
            TaskState::Queued => TaskStatus::Queued,
            TaskState::Running => TaskStatus::Running,
            TaskState::Parked { .. } => TaskStatus::Parked,
            TaskState::Stopped => TaskStatus::Stopped,
            TaskState::Done => TaskStatus::Done,
            TaskState::Failed => TaskStatus::Failed,
            TaskState::Cancelled => TaskStatus::Cancelled,
        }
    }
}

/// What a project held when a workspace was opened over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The commit that says what unnamed files held.
    pub head: Option<String>,
    /// Names the files that were not as it has them.
    pub blob: String,
    /// When the look was over: a file that was changed between the opening and this has no base.
    pub until_us: i64,
}

/// Where a task's writes go, and what they are measured against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWorkspace {
    /// The commit the project stood at, if it had one.
    pub head: Option<String>,
    /// When it was opened, by the clock that stamps files.
    pub since_us: i64,
    /// Not known until the project has been looked through.
    #[serde(default)]
    pub base: Option<Base>,
    /// Nothing runs in its room until a person says so.
    #[serde(default)]
    pub paused: bool,
}
