//! What a session asks of the kernel.

use crate::{NewSession, RoomSlots};
use gate::{CallOutcome, Gate, Request};
use ledger::Ledger;
use models::Models;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use world::{CallId, Fault, Refusal, SessionTerms, StepIncrement, Stop, Task, TaskId};

pub type HostFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who freezes the room of a session whose place one of higher priority needs, as records name it.
pub const PREEMPTED: &str = "kernel";

/// The kernel as sessions know it. Every act of a session goes through here or is a record in the ledger.
pub trait SessionHost: Send + Sync {
    fn ledger(&self) -> &Arc<Ledger>;

    fn gate(&self) -> &Arc<Gate>;

    fn models(&self) -> &Arc<Models>;

    fn tools(&self) -> &Arc<tool::Registry>;

    /// The places for steps and rooms, of all sessions together.
    fn slots(&self) -> &Arc<RoomSlots>;

    /// How many steps of one session run at once.
    fn steps_abreast(&self) -> usize;

    /// Carries one call from request to outcome.
    fn call<'a>(&'a self, request: &'a Request) -> HostFuture<'a, Result<CallOutcome, Fault>>;

    /// What would be said of a call, within the terms of a session that there is not yet where some are given. Nothing is recorded and nothing runs.
    fn foresee<'a>(&'a self, request: &'a Request, terms: Option<&'a SessionTerms>) -> HostFuture<'a, Result<Foreseen, Stop>>;

    /// Ends one call that runs, with everything of it: when this is over, nothing of it runs any more.
    fn cancel_call<'a>(&'a self, call: CallId, why: &'a str) -> HostFuture<'a, Result<(), Stop>>;

    /// Freezes what runs in the task's room, and has it go on.
    fn pause_room(&self, task: TaskId) -> HostFuture<'_, Result<(), Stop>>;

    fn resume_room(&self, task: TaskId) -> HostFuture<'_, Result<(), Stop>>;

    /// Opens the task's workspace, or mounts it again.
    fn open_workspace(&self, task: TaskId) -> HostFuture<'_, Result<(), Stop>>;

    /// Where these names lead in the task's workspace, with links followed: for each the paths beside its own that stand for the same file.
    fn real_paths(&self, task: TaskId, names: Vec<String>) -> HostFuture<'_, Result<Vec<Vec<String>>, Stop>>;

    /// Keeps what the task's workspace holds now, beside what was kept before, so that it can be forked from here. `only` are the paths that can have changed, where that is
    /// known.
    fn keep_increment(&self, task: TaskId, only: Option<Vec<String>>) -> HostFuture<'_, Result<StepIncrement, Stop>>;

    /// Asks the person what `question` says, as a call of the task. Once it is answered, asking again gives the answer.
    fn ask_person<'a>(&'a self, task: &'a Task, question: Value) -> HostFuture<'a, Result<CallOutcome, Stop>>;

    /// Asks a brain one question, in a conversation of its own in which it may look at the project and change nothing. `brain` is a name of the project's
    /// or a whole spec.
    fn ask_brain<'a>(&'a self, task: &'a Task, brain: &'a str, question: String) -> HostFuture<'a, Result<String, Stop>>;

    /// Starts a session, for one that delegates.
    fn start_session(&self, new: NewSession) -> HostFuture<'_, Result<TaskId, Stop>>;

    /// Waits until a task has ended, stopped or waits for a person, and gives it.
    fn settled(&self, task: TaskId) -> HostFuture<'_, Result<Task, Stop>>;

    /// Ends a task where it is.
    fn cancel_task<'a>(&'a self, task: TaskId, by: &'a str) -> HostFuture<'a, Result<(), Stop>>;

    /// Is the kernel on its way down?
    fn is_stopping(&self) -> bool;
}

/// What the gate would say of a call that is not made.
#[derive(Clone, Debug, PartialEq)]
pub enum Foreseen {
    Allowed,
    /// A person would be asked, for these reasons.
    Reviewed(Vec<String>),
    Denied(Refusal),
}
