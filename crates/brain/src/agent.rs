//! A vendor's own client as a brain: a program with hands of its own, driven over its standard streams.
//!
//! An [`AgentWire`] knows one vendor's protocol: lines in, lines out. It does no IO and reads no clock. [`Supervised`] drives a wire over
//! a running program and is the [`crate::Brain`] that the kernel sees. **Invariant.** A tool of the program runs only after the wire has
//! said so in answer to an [`AgentEvent::Asked`]; what a program does without asking is told as [`AgentEvent::Ungated`].

mod acp;
mod approvals;
mod claude;
mod codex;
mod hook_tools;
mod idle;
mod kept;
mod lines;
#[cfg(test)]
mod play;
mod running;
mod supervised;
mod tools;
mod turn;
mod versions;

pub use acp::{Acp, AcpAgent};
pub use claude::Claude;
pub use codex::{Codex, CodexExec};
pub use idle::{AttachedAgent, IdleAgent};
pub use kept::{KeptState, UnreadableCheckpoint, checkpoint_of, series_in, state_in};
pub use running::HookQuestion;
pub use supervised::{AgentExit, AgentLauncher, AgentStreams, Supervised};
pub use turn::{ASK, TurnNotes};
pub use versions::{TriedVersions, tried, version_in};

use crate::{OwnCallId, ToolCall};
use world::RetryCause;

/// How a program is to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchPlan {
    /// Words before the program: a command that becomes it.
    pub before: Vec<String>,
    /// Its arguments, without its own name.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Files that it finds in its home: the path there, and the text.
    pub home_files: Vec<(String, String)>,
    /// Its hook program is run, and must find its door.
    pub is_hooked: bool,
}

/// How a program is started on a terminal, for a person to talk with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalPlan {
    pub launch: LaunchPlan,
    /// The folder of its home in whose folders it keeps each conversation as a file, named by the conversation and `.jsonl`; where it has
    /// none, its hook program is told the conversation.
    pub conversations: Option<&'static str>,
}

/// What a program tells its hook program, which asks the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum HookEvent {
    /// It begins: its hooks work.
    Began,
    /// Somebody said something in this conversation.
    Prompted {
        series: String,
    },
    /// It wants to use a tool, which is all of these calls. The name is the program's own for this use.
    Asked {
        id: String,
        calls: Vec<ToolCall>,
    },
    /// That tool ended.
    Ended {
        id: String,
        ok: bool,
        text: String,
    },
    Other,
}

/// What a program is started for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentBoot {
    /// The conversation to go on with; a new one without it.
    pub series: Option<String>,
    /// The model that the operator named.
    pub model: Option<String>,
    /// The folder that it works in.
    pub project: String,
    /// What it is told about its place, before any prompt.
    pub brief: String,
    /// What the project says that its role is; it stands behind the brief, where a program has no better place for it.
    pub role: String,
    /// May the work change files?
    pub may_change: bool,
    /// Where the kernel's own tools are served to it by MCP, over HTTP.
    pub tools_url: Option<String>,
    /// The command by which a program's hooks ask the kernel, where they can.
    pub hook: Option<String>,
}

impl AgentBoot {
    /// Brief and role as one text.
    fn instructions(&self) -> String {
        [self.brief.as_str(), self.role.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    }
}

/// What a wire makes of the lines of its program.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// The protocol wants this line sent.
    Send(String),
    /// The answer to what its hook program was told.
    HookReply { number: u64, text: String },
    /// The conversation's own name, by which it can be taken up again.
    Series(String),
    /// Something for the person.
    Message(String),
    /// It asks leave to use a tool, and waits for the answer.
    Asked { id: OwnCallId, call: ToolCall },
    /// A tool ended, by the program's own word.
    Ended { id: OwnCallId, ok: bool, text: String },
    /// It used a tool without asking.
    Ungated { tool: String },
    /// Anything else; `note` names it.
    Progress { note: String },
    /// Its conversation was shortened and goes on under the same name.
    Compacted,
    /// The turn is over, and this is what it says of it.
    Done(String),
    /// The turn is over, and nothing came of it.
    Failed(AgentFailure),
}

/// Why a turn came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFailure {
    pub what: String,
    pub hint: Option<String>,
    /// Where the same work can go on later.
    pub may_retry: Option<RetryCause>,
    /// The conversation to go on with is not there any more: a new one must begin.
    pub series_is_gone: bool,
}

impl AgentFailure {
    pub fn new(what: impl Into<String>) -> AgentFailure {
        AgentFailure { what: what.into(), hint: None, may_retry: None, series_is_gone: false }
    }

    pub fn may_retry(self, cause: RetryCause) -> AgentFailure {
        AgentFailure { may_retry: Some(cause), ..self }
    }

    /// The program's model, or the way to it, answered with an error; with this status, where the program says it. Whatever it was, the same
    /// work can go on once it is mended: a key, a budget, a name, a server.
    pub fn by_model(self, status: Option<u64>) -> AgentFailure {
        self.may_retry(if status == Some(402) { RetryCause::Budget } else { RetryCause::Model })
    }
}

/// The kernel's word on an [`AgentEvent::Asked`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAnswer {
    Allowed,
    /// With what the program is to tell its model.
    Refused(String),
}

/// One vendor's protocol over the standard streams of its program: lines in, lines out.
pub trait AgentWire: Send {
    /// How the program is started.
    fn launch(&mut self, boot: &AgentBoot) -> LaunchPlan;

    /// How it is started on a terminal, in the same home and with the same conversation; `None` where it has no screens of its own.
    fn launch_terminal(&mut self, _boot: &AgentBoot) -> Option<TerminalPlan> {
        None
    }

    /// What its hook program was given to read.
    fn hook_event(&self, _input: &serde_json::Value) -> HookEvent {
        HookEvent::Other
    }

    /// What its hook program is to write in answer.
    fn hook_answer(&self, _answer: &AgentAnswer) -> String {
        String::new()
    }

    /// Takes down what its hook program was told. Each has its number, by which [`AgentEvent::HookReply`] answers it.
    fn read_hook(&mut self, _number: u64, _input: &serde_json::Value) -> Vec<AgentEvent> {
        Vec::new()
    }

    /// Has the program answered in this protocol?
    fn is_greeted(&self) -> bool {
        true
    }

    /// The protocol to try where the program does not answer in this one.
    fn fallback(&mut self) -> Option<FallbackWire> {
        None
    }

    /// Does its program end with each turn?
    fn ends_with_turn(&self) -> bool {
        false
    }

    /// What is sent as soon as it runs.
    fn hello(&mut self, boot: &AgentBoot) -> Vec<String>;

    /// Gives it a turn. What cannot be sent yet is sent when the program is ready for it.
    fn prompt(&mut self, text: &str) -> Vec<String>;

    /// Reads one line of its output. A line that means nothing is no error: formats move.
    fn read(&mut self, line: &str) -> Vec<AgentEvent>;

    /// Answers one question; what follows from it may be the next one.
    fn answer(&mut self, id: OwnCallId, answer: &AgentAnswer) -> Vec<AgentEvent>;

    /// Has it stop what it does, if its protocol knows how.
    fn interrupt(&mut self) -> Vec<String>;

    /// Could this be the name of a conversation? Others never reach an argument list.
    fn is_series(&self, name: &str) -> bool;
}

/// Another protocol of the same program.
pub struct FallbackWire {
    pub wire: Box<dyn AgentWire>,
    /// What does not answer, and what is used in its place.
    pub missing: &'static str,
    pub instead: &'static str,
}

impl FallbackWire {
    fn describe(&self) -> String {
        format!("`{}` does not answer, so `{}` works on this", self.missing, self.instead)
    }
}

/// The name under which clients know the kernel's own tools.
pub const TOOLS: &str = "skep";

/// How clients call those tools to their models.
const OURS: &str = "mcp__skep__";

/// A UUID in its usual form, as three of the four vendors name conversations.
pub(crate) fn is_uuid(name: &str) -> bool {
    let groups: Vec<&str> = name.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
