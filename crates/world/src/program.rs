//! What a process of the tree runs, and what is known of it while it runs.
//!
//! A worker, a job and the operator have no [`Program`]; an agent has one from its spawn on, and it never changes. What changes is its
//! [`ProgramRun`]. **Invariant.** Neither holds a secret: values of environment variables and the texts as they were given lie in the vault,
//! under the name in `original`.

use crate::{Budget, ProcessState, Tier};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a process of the tree is: what it runs, in which role and tier, within which limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub runtime: ProgramRuntime,
    /// `module:Class`, the path of a program, or the name of a brain; empty for a virtual process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    pub role: ProcessRole,
    pub tier: Tier,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Without its secrets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system_prompt: String,
    /// Name in the vault of its [`ProgramOriginal`], where it has something that the record does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Names of its environment variables. Their values are in the original.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Without its secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(default)]
    pub limits: ProgramLimits,
    /// What of its parent's account is set aside for it; `None` shares what its parent has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ProgramSchedule>,
    /// What it does first, without its secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_task: Option<String>,
    /// Who spawned it, where its first task or its schedule is to be queued in that one's name; records from before this was written down have nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<crate::Pid>,
    /// It runs in a room. The operator may name one that does not.
    #[serde(default = "yes")]
    pub confined: bool,
    pub supervision: Supervision,
    /// The machine that it runs on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

impl Program {
    /// What the entry of cron is called by which a process keeps its schedule.
    pub fn schedule_name(pid: crate::Pid) -> String {
        format!("schedule of process {pid}")
    }

    /// A virtual process of this role and tier, without limits: whoever makes one fills in what it knows.
    pub fn new(role: ProcessRole, tier: Tier) -> Program {
        Program {
            runtime: ProgramRuntime::Virtual,
            image: String::new(),
            role,
            tier,
            model: String::new(),
            system_prompt: String::new(),
            original: None,
            tools: Vec::new(),
            env: Vec::new(),
            metadata: BTreeMap::new(),
            limits: ProgramLimits::default(),
            budget: None,
            schedule: None,
            initial_task: None,
            spawned_by: None,
            confined: true,
            supervision: Supervision::of(role),
            node: String::new(),
        }
    }
}

fn yes() -> bool {
    true
}

/// What the vault keeps of a program: the texts as they were given, and the values of its environment.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramOriginal {
    pub system_prompt: String,
    pub env: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub initial_task: Option<String>,
}

/// Says nothing of what it holds: it may be a secret.
impl std::fmt::Debug for ProgramOriginal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramOriginal").field("env", &self.env.keys()).finish_non_exhaustive()
    }
}

/// How a program is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramRuntime {
    Python,
    Claw,
    /// Any program.
    Custom,
    /// One of our brains, which the kernel itself has work on a project.
    Brain,
    /// Nothing runs: it stands in the table and has a mailbox.
    #[default]
    Virtual,
}

impl ProgramRuntime {
    pub const ALL: [ProgramRuntime; 5] =
        [ProgramRuntime::Python, ProgramRuntime::Claw, ProgramRuntime::Custom, ProgramRuntime::Brain, ProgramRuntime::Virtual];

    /// Is there a program that the tree starts, speaks to and watches?
    pub fn has_program(self) -> bool {
        !matches!(self, ProgramRuntime::Brain | ProgramRuntime::Virtual)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ProgramRuntime::Python => "python",
            ProgramRuntime::Claw => "claw",
            ProgramRuntime::Custom => "custom",
            ProgramRuntime::Brain => "brain",
            ProgramRuntime::Virtual => "virtual",
        }
    }

    pub fn parse(name: &str) -> Option<ProgramRuntime> {
        ProgramRuntime::ALL.into_iter().find(|runtime| runtime.as_str() == name)
    }
}

/// How long a process of the tree lives and whom it may direct. Its place in the tree says nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessRole {
    /// The kernel alone.
    Kernel,
    /// A service of the system.
    Daemon,
    /// Lives long and has an identity of its own.
    Agent,
    /// Designs, stores its document and sleeps.
    Architect,
    /// Divides work among others.
    Lead,
    /// Does the work, and may have tasks of its own.
    Worker,
    /// One piece of work, and its end.
    Task,
}

impl ProcessRole {
    pub const ALL: [ProcessRole; 7] = [
        ProcessRole::Kernel,
        ProcessRole::Daemon,
        ProcessRole::Agent,
        ProcessRole::Architect,
        ProcessRole::Lead,
        ProcessRole::Worker,
        ProcessRole::Task,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ProcessRole::Kernel => "kernel",
            ProcessRole::Daemon => "daemon",
            ProcessRole::Agent => "agent",
            ProcessRole::Architect => "architect",
            ProcessRole::Lead => "lead",
            ProcessRole::Worker => "worker",
            ProcessRole::Task => "task",
        }
    }

    pub fn parse(name: &str) -> Option<ProcessRole> {
        ProcessRole::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// What a process of the tree may use at most. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_hour: Option<u64>,
    /// Tokens of its context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Children that are alive at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    /// Tasks that it works on at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Of one task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_total: Option<u64>,
    /// Memory of its program and of those of everything below it together, in mebibytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Thousandths of one processor, of the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_milli: Option<u64>,
}

impl ProgramLimits {
    fn pairs(&self, other: &ProgramLimits) -> [(&'static str, Option<u64>, Option<u64>); 8] {
        [
            ("tokens per hour", self.tokens_per_hour, other.tokens_per_hour),
            ("context", self.context, other.context),
            ("children", self.children, other.children),
            ("concurrent tasks", self.tasks, other.tasks),
            ("timeout", self.timeout_ms, other.timeout_ms),
            ("tokens", self.tokens_total, other.tokens_total),
            ("memory", self.memory_mb, other.memory_mb),
            ("processor", self.cpu_milli, other.cpu_milli),
        ]
    }

    /// The first limit that goes beyond those of a parent: its name, what is wanted, and what the parent has. To have no limit goes beyond
    /// every limit.
    pub fn beyond(&self, parent: &ProgramLimits) -> Option<(&'static str, Option<u64>, u64)> {
        let is_beyond = |own: Option<u64>, bound: u64| own.is_none_or(|own| own > bound);
        self.pairs(parent)
            .into_iter()
            .find_map(|(name, own, bound)| bound.filter(|bound| is_beyond(own, *bound)).map(|bound| (name, own, bound)))
    }

    /// These, but nowhere more than a parent's.
    #[must_use]
    pub fn within(&self, parent: &ProgramLimits) -> ProgramLimits {
        let less = |own: Option<u64>, bound: Option<u64>| own.into_iter().chain(bound).min();
        ProgramLimits {
            tokens_per_hour: less(self.tokens_per_hour, parent.tokens_per_hour),
            context: less(self.context, parent.context),
            children: less(self.children, parent.children),
            tasks: less(self.tasks, parent.tasks),
            timeout_ms: less(self.timeout_ms, parent.timeout_ms),
            tokens_total: less(self.tokens_total, parent.tokens_total),
            memory_mb: less(self.memory_mb, parent.memory_mb),
            cpu_milli: less(self.cpu_milli, parent.cpu_milli),
        }
    }
}

/// When a process of the tree runs by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSchedule {
    /// As it was written; whoever spawned it has checked it.
    pub cron: String,
    /// Its program sleeps between two runs; without this it is started for each.
    pub keep_alive: bool,
}

/// What happens when a program ends that was not to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supervision {
    /// It is started again, with a growing delay, up to a rate.
    Restart,
    /// Its parent, or a person, decides.
    Decide,
    /// Its end is told.
    Never,
}

impl Supervision {
    /// What a role has when nobody says otherwise.
    pub fn of(role: ProcessRole) -> Supervision {
        match role {
            ProcessRole::Kernel | ProcessRole::Daemon => Supervision::Restart,
            ProcessRole::Agent | ProcessRole::Architect | ProcessRole::Lead | ProcessRole::Worker => Supervision::Decide,
            ProcessRole::Task => Supervision::Never,
        }
    }
}

/// What changes of a program: its incarnations, and what is known of the present one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramRun {
    /// How often it was started; the present one has this number.
    pub incarnation: u64,
    /// The present one has not ended.
    pub is_up: bool,
    /// Its operating-system process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub started_ms: i64,
    /// It runs in a room.
    pub confined: bool,
    /// It remembers the ids of messages, so one that it may have had can be handed to it again.
    pub remembers: bool,
    /// It has asked a model through the gateway: what it says of its tokens counts no more.
    pub uses_gateway: bool,
    /// Tokens of the present incarnation that it has claimed.
    pub claimed: u64,
    /// Some of what counts as spent is what it claimed, in this incarnation or an earlier one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_claimed: bool,
    /// Blob with what it wants back at its next start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Its last heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<ProgramReport>,
    /// When it crashed, the latest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crashes_ms: Vec<i64>,
    /// Starts since it last ran well.
    pub attempt: u32,
    /// The last lines of its error output, when it crashed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What an agent says of itself. All of it is a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramReport {
    pub at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProcessState>,
    /// How full its context is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_permille: Option<u32>,
}

/// What a process waits for while it is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockReason {
    /// A person's answer.
    Person,
    /// More of a budget.
    Budget,
    /// The end of a child.
    Child,
    /// The next start of its program.
    Start,
}

/// Why a process of the tree was ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    #[default]
    Normal,
    ParentDied,
    BudgetExceeded,
    Migration,
    UserRequest,
}

/// A signal to a process of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeSignal {
    Term,
    Kill,
    /// Ends the present task and keeps what it has.
    Int,
    Stop,
    Cont,
    /// A child of it ended.
    Chld,
}

/// How a process of the tree ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessExit {
    pub reason: EndReason,
    /// `None` where nobody knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// What it had of the task that it was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<ExecuteResult>>,
}

/// What a process of the tree is to do, beside the prompt: a task of [`crate::Mode::Execute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecuteOrder {
    /// Who asked for it.
    pub by: crate::Pid,
    /// Without their secrets; the task's `original` has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// How the one who asked calls it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The task that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_task: Option<String>,
    /// Blob with what it is to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// It is what its process was spawned to do first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_first: bool,
}

/// What came of such a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecuteResult {
    pub exit_code: i32,
    /// Cut where it is too long for a record; `blob` has all of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// It was interrupted: this is what there was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}
