//! Calls of the tree that only change the world: judged, recorded, done and ended in one commit.
//!
//! **Invariant.** The decision, its effect and its end are one batch of records, so none of them is ever on disk without the others.

use crate::Tree;
use crate::brain_work::is_brain;
use crate::view::unknown;
use gate::{Details, ExtraEvents, GateDecision, Request, TreeRequest, stale};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use world::event::CallFinished;
use world::{CallId, Event, Pid, Process, Recipient, Refusal, Stop, Task, TaskId, TaskState, World, ZoneId};

/// The call that runs a vendor's client.
const BRAIN_RUN: &str = "brain.run";

/// What a call does to the world: events, what its record says of the outcome, and what the caller gets.
pub(crate) struct CallEffect<T> {
    pub events: Vec<Event>,
    pub output: Value,
    pub value: T,
}

/// A call of a process of the tree.
pub(crate) struct TreeCall {
    pub by: Pid,
    /// `message.send` and its kin.
    pub tool: &'static str,
    /// As its record has it, without the body of what is sent or kept.
    pub input: Value,
    /// Whom it concerns, for rules.
    pub about: Option<TreeRequest>,
    pub read_only: bool,
}

/// Who asks for something, and in which words where they are more than the record of the call has: by those a brain that is taken up again finds
/// the outcome of what it asked before.
#[derive(Clone, Debug)]
pub struct TreeCaller {
    pub pid: Pid,
    pub asked: Option<Arc<Value>>,
}

impl From<Pid> for TreeCaller {
    fn from(pid: Pid) -> TreeCaller {
        TreeCaller { pid, asked: None }
    }
}

/// What a call is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallOrigin {
    pub task: Option<TaskId>,
    pub zone: ZoneId,
    /// The call that runs the brain that asks.
    of: Option<CallId>,
}

impl CallOrigin {
    /// What a worker of a project asks of the tree is part of its task: the project's policy, the task's mode and its tool lists hold. So it is with
    /// a brain that another one spawned; every other process of the tree works for no project.
    pub fn of(world: &World, by: Pid) -> CallOrigin {
        let none = CallOrigin { task: None, zone: ZoneId::NONE, of: None };
        let Some(process) = world.processes.get(&by).filter(|process| works_on_project(process) && by != Pid::OPERATOR) else {
            return none;
        };
        let run = world.calls.iter().rfind(|(_, call)| call.pid == by && call.tool == BRAIN_RUN);
        let task = run.and_then(|(_, call)| call.task).or_else(|| task_of(world, by));
        let zone = task.and_then(|task| world.tasks.get(&task)).map(|task| task.zone).or(process.zone);
        CallOrigin { task, zone: zone.unwrap_or(ZoneId::NONE), of: run.map(|(call, _)| *call) }
    }

    pub fn request(self, by: Pid, tool: &str, input: Value) -> Request {
        Request { of: self.of, ..Request::new(by, self.task, self.zone, tool, input) }
    }
}

fn works_on_project(process: &Process) -> bool {
    process.program.is_none() || is_brain(process)
}

/// The task that a worker works on, or that waits for a person in the middle of it.
fn task_of(world: &World, by: Pid) -> Option<TaskId> {
    let is_parked = |task: &&Task| task.pid == by && matches!(task.state, TaskState::Parked { .. });
    world.current_task(by).or_else(|| world.tasks.values().rfind(is_parked)).map(|task| task.id)
}

/// Why there is nobody whom a call could concern: no rule is asked about that.
fn missing_target(world: &World, about: Option<&TreeRequest>) -> Option<Refusal> {
    let target = match about? {
        TreeRequest::Direct { target, .. } | TreeRequest::Send { to: Recipient::Process(target) } => *target,
        TreeRequest::Stream { peer } => *peer,
        _ => return None,
    };
    (!world.processes.contains_key(&target)).then(|| unknown(target))
}

impl Tree {
    /// What the calls of a process are part of now.
    pub(crate) fn origin(&self, by: Pid) -> CallOrigin {
        self.ledger.look(|world| CallOrigin::of(world, by))
    }

    /// Has the gate judge a call, and records its effect and its end with the admission. `effect` sees the world that the decision is made on, and may
    /// still refuse.
    pub(crate) async fn commit_call<T: Send>(
        &self,
        call: TreeCall,
        effect: impl Fn(&World, CallId, i64) -> Result<CallEffect<T>, Refusal> + Sync,
    ) -> Result<T, Stop> {
        self.commit_asked(call, None, effect).await
    }

    /// The same for whoever asked in words of its own.
    pub(crate) async fn commit_asked<T: Send>(
        &self,
        call: TreeCall,
        asked: Option<Arc<Value>>,
        effect: impl Fn(&World, CallId, i64) -> Result<CallEffect<T>, Refusal> + Sync,
    ) -> Result<T, Stop> {
        let TreeCall { by, tool, input, about, read_only } = call;
        let (origin, missing) = self.ledger.look(|world| (CallOrigin::of(world, by), missing_target(world, about.as_ref())));
        let request = Request { asked, ..origin.request(by, tool, input) };
        let task = request.task;
        if let Some(missing) = missing {
            self.gate.record_refusal(&request, &missing).await?;
            return Err(missing.into());
        }
        for _ in 0..2 {
            let details = Details { read_only, tree: about.clone(), ..Details::of(tool, Value::Null) };
            let facts = self.gate.describe_without_files(&request, details).await?;
            let made = Mutex::new(None);
            let with = |world: &World, call: CallId, now_ms: i64| {
                let CallEffect { mut events, output, value } = effect(world, call, now_ms)?;
                events.push(CallFinished { pid: by, task, call, ok: true, output, blob: None, blob_bytes: 0, ms: 0 }.into());
                *made.lock() = Some(value);
                Ok(ExtraEvents { events, ahead: false })
            };
            match self.gate.admit_with(&request, &facts, &with).await? {
                // The policy or a grant changed meanwhile.
                None => continue,
                Some(GateDecision::Admitted { .. }) => {
                    if let Some(value) = made.into_inner() {
                        return Ok(value);
                    }
                }
                Some(GateDecision::Refused { refusal, .. } | GateDecision::Pending { refusal, .. }) => return Err(refusal.into()),
            }
        }
        Err(stale().into())
    }
}
