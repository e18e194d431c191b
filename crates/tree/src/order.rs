//! What can be asked of the tree, in its own words. Faces make these from requests of theirs.

use std::collections::BTreeMap;
use std::time::Duration;
use world::{
    Budget, EndReason, MessagePriority, Pid, ProcessRole, ProgramLimits, ProgramRuntime, ProgramSchedule, Recipient, Severity, Tier,
    Visibility,
};

/// A process that is to be.
#[derive(Clone, Debug)]
pub struct SpawnOrder {
    /// The caller itself where nobody else is named.
    pub parent: Option<Pid>,
    pub name: String,
    pub role: ProcessRole,
    pub tier: Tier,
    /// The tier's own where it is empty.
    pub model: String,
    pub system_prompt: String,
    pub tools: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub limits: ProgramLimits,
    pub budget: Option<Budget>,
    pub runtime: ProgramRuntime,
    /// `module:Class`, or a program; empty for a virtual process.
    pub image: String,
    pub initial_task: Option<String>,
    pub schedule: Option<ProgramSchedule>,
    /// Its parent's where nobody is named; only the operator and the kernel may name another.
    pub user: Option<String>,
    /// Only the operator may say no.
    pub confined: bool,
}

/// Processes that are to end.
#[derive(Clone, Debug)]
pub struct KillOrder {
    pub target: Pid,
    pub recursive: bool,
    pub reason: EndReason,
    pub grace: Duration,
}

/// A task for a process of the tree.
#[derive(Clone, Debug, Default)]
pub struct TaskOrder {
    pub description: String,
    pub params: BTreeMap<String, String>,
    pub timeout: Option<Duration>,
    /// How the one who asks calls it.
    pub label: String,
    pub parent_task: Option<String>,
    pub context: Vec<u8>,
    /// It is what its process was spawned to do first, which is queued once.
    pub is_first: bool,
}

/// A message that is to be sent.
#[derive(Clone, Debug)]
pub struct MessageOrder {
    pub to: Recipient,
    pub kind: String,
    pub priority: MessagePriority,
    pub body: Vec<u8>,
    pub requires_ack: bool,
    pub ttl: Option<Duration>,
    pub reply_to: Option<String>,
}

/// Something that is to be kept for others.
#[derive(Clone, Debug)]
pub struct ArtifactOrder {
    pub key: String,
    pub content: Vec<u8>,
    pub content_type: String,
    pub visibility: Visibility,
}

/// Trouble that somebody above is to hear of.
#[derive(Clone, Debug)]
pub struct EscalationOrder {
    pub issue: String,
    pub severity: Severity,
    pub context: BTreeMap<String, String>,
    /// Whoever cannot deal with it passes it on without being asked.
    pub auto: bool,
}

/// What a process says of its work. `fields["event_type"]` names the event that followers see.
#[derive(Clone, Debug)]
pub struct LogLine {
    pub level: String,
    pub message: String,
    pub fields: BTreeMap<String, String>,
}
