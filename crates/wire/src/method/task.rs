//! Tasks, from the queue to the merge.

use super::brain_output::BrainOutputView;
use super::model::WaitView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use world::TaskStatus;
use world::{
    Budget, CommitWish, Discipline, MergePath, MergeState, Mode, PathChange, Pid, Remedy, RetryCause, ReviewId, Side, Spend, TaskId,
    TaskPlacement, ToolList, UsageTotals, ZoneId,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskAddParams {
    /// A folder inside the zone. A zone that is not there yet is opened.
    pub path: String,
    /// `ask` or `act`.
    pub mode: Mode,
    pub prompt: String,
    /// `script:FILE` with an absolute path, or a name; the zone's default without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brain: Option<String>,
    /// Higher first, 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Calls the process may make from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_max: Option<u64>,
    /// Take its traffic with models down on a cassette.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub record: bool,
    /// What kind of caller its process is meanwhile, for rules about `caller_tag`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What its requests to models may use: money, tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Have another worker do it at once; without it, it is queued behind what the first one does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_worker: bool,
    /// A worker of this role of the project does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// It is this skill; `prompt` may be empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// Values of the skill's parameters, as they were typed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// The only tools that it may use: names, or `fs.*` for all of a kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// For whom, and when: `who`, `prioritize`, `disrupt`, `after`, `timeout_ms`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: TaskPlacement,
    /// How strictly tests come first: `strict`, `explore` or `debug`; as the project or the operator says without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
}

fn is_default(placement: &TaskPlacement) -> bool {
    *placement == TaskPlacement::default()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAddResult {
    pub task: TaskId,
    /// Name of the process that will do it.
    pub process: String,
    pub branch: String,
    /// The zone was opened on the way.
    pub initialised: bool,
    /// The project's policy files differ from what is in force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drifts: bool,
    /// The task that it waits for in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<TaskId>,
    /// The model that was asked for, as `provider/model`, where nobody knows before its first request whether the provider has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
    /// Its worker was taken on for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enrolled: bool,
    /// The skill that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// Unfinished tasks that it comes after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    /// It goes before others that are queued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prioritized: bool,
    /// The task that was interrupted for it, and goes on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<TaskId>,
    /// Its worker takes nothing from its queue until it is told to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue_paused: bool,
}

/// A task that is to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRetryParams {
    pub task: TaskId,
    /// Its own budget from here on, in the place of what it was given; what it has spent counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskListParams {
    /// Only the zone that holds this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskListResult {
    pub tasks: Vec<TaskView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskIdParams {
    pub task: TaskId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskAwaitParams {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    pub task: TaskId,
    pub pid: Pid,
    /// Name of that process.
    pub process: String,
    pub zone: ZoneId,
    pub branch: String,
    pub mode: Mode,
    pub prompt: String,
    pub brain: String,
    pub state: TaskStatus,
    /// The question it is parked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewId>,
    /// How far its changes are; `None` when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeState>,
    /// Paths of that merge that an undo left as they were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undo_left: u64,
    /// What the brain said at the end, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What lets it go on, where it has stopped and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Box<Remedy>>,
    /// Why it has stopped, while it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<RetryCause>,
    pub queued_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    pub episodes: u32,
    /// Calls that have their outcome.
    pub calls: u64,
    /// More of a budget, if its model waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitView>,
    /// The task that it is run to be compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replays: Option<TaskId>,
    /// Whether the two differed, once they were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<bool>,
    /// What it used of models; `None` where it asked none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TaskUsageView>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Its changes that are kept and not in the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptView>,
    /// The task that it waits for in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<TaskId>,
    /// Higher goes first in the queue; 0 is the order in which they came.
    #[serde(default)]
    pub priority: i64,
    /// Unfinished tasks that it comes after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    /// The task that its worker does first, as it was interrupted for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_for: Option<TaskId>,
    /// How long it may be worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The skill that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The only tools that it may use, list by list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_lists: Vec<ToolList>,
    /// What its brain said when it was asked at the end, by name, with `tokens` and `cost` where a model was asked. Whole in `task.show`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, String>,
    /// Artifacts that it has not, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifact_errors: BTreeMap<String, String>,
    /// What came of each of its prompts; only `task.show` tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<BrainOutputView>,
    /// It is a session: plans do it, and nobody says more to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUsageView {
    #[serde(flatten)]
    pub figures: UsageTotals,
    /// The part of it that is only an estimate.
    #[serde(default)]
    pub guessed: Spend,
    /// What its requests may have cost beyond that.
    #[serde(default)]
    pub held: Spend,
}

/// Changes of a task that are kept after its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptView {
    pub files: u64,
    pub bytes: u64,
    /// Files that were too much to be kept.
    #[serde(default)]
    pub left: u64,
    pub since_ms: i64,
    /// When they go by themselves; `None` while the task has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSayParams {
    pub task: TaskId,
    pub prompt: String,
}

/// A task that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskContinueResult {
    pub task: TaskView,
    /// A fresh allowance of calls, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// False where somebody works on it: it hears of it at the end of its turn.
    pub taken_up: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDiffResult {
    pub task: TaskId,
    /// Names exactly these changes; `task.merge` with it refuses any others. `None` when nothing is proposed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// `None` while the task still works and nothing is proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<MergeState>,
    /// The changes are kept from a task that nobody works on; merging them proposes them first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// The question about their merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewId>,
    pub files: Vec<FileDiffView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiffView {
    pub path: String,
    pub kind: PathChange,
    /// What a renamed path was called before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why a person should look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why a merge would leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Unified diff, or a line that says why there is none (binary, too large).
    pub diff: String,
    /// Lines; of a file that is not shown, all it has.
    #[serde(default)]
    pub added: u64,
    #[serde(default)]
    pub removed: u64,
    /// `diff` does not show what changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unshown: bool,
}

/// All changes as a patch for git, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPatchParams {
    pub task: TaskId,
    #[serde(default)]
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPatchResult {
    /// Of the whole patch.
    pub bytes: u64,
    /// SHA-256 of the whole patch: pieces with another one are of another patch.
    pub digest: String,
    /// This piece, in base 64.
    pub data: String,
}

/// One changed file, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFileParams {
    pub task: TaskId,
    pub path: String,
    /// As it was, not as it shall be.
    #[serde(default)]
    pub before: bool,
    #[serde(default)]
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFileResult {
    /// All of it.
    pub bytes: u64,
    /// Base64 of the piece at `offset`; empty behind the end.
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskMergeParams {
    pub task: TaskId,
    /// What the person was shown, as `task.diff` names it. Without it nothing is merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whose version is taken of a path that both changed; one without a choice stays out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sides: BTreeMap<String, Side>,
    /// Paths and folders that go in; all without any. The others are kept with the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// A commit of exactly what goes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitWish>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskMergeResult {
    pub applied: Vec<String>,
    pub refused: Vec<MergePath>,
    /// The commit that was made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitView>,
    /// Why no commit was made, where one was wanted: the files are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncommitted: Option<String>,
    /// Files of the task that are kept and can be merged later.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A commit that a merge made. Hooks of the repository were not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitView {
    pub commit: String,
    /// `HEAD`, or `refs/heads/…`.
    pub reference: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRejectParams {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskReplayParams {
    pub task: TaskId,
    /// With the pauses that were recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReplayResult {
    /// The replay, a task of its own.
    pub task: TaskId,
    pub of: TaskId,
    pub calls: u64,
    pub requests: u64,
    /// What differed first; `None` when nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<DivergenceView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DivergenceView {
    /// `call 3`, `request 2`, `changes` or `end`.
    pub at: String,
    pub recorded: Vec<String>,
    pub replayed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskTryParams {
    pub task: TaskId,
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortForward>,
}

/// A port of the host's loopback that leads to one of the room's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortForward {
    pub here: std::num::NonZeroU16,
    pub there: std::num::NonZeroU16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTryResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}
