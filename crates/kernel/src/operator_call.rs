//! The operator's own call: gets a task and a room where it changes files, and offers what it wrote like any task.

use crate::queue::TaskMarks;
use crate::work::Tasks;
use crate::{Kernel, call, episode, merge};
use gate::{CallEnd, CallOutcome, JobTerms, Request};
use room::OpenWorkspaces;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tool::RunMode;
use world::event::{TaskParked, TaskStarted};
use world::{Fault, FaultKind, Mode, Pid, Refusal, Stop, Task, TaskId, ZoneId};

/// How an operator's call is to be made.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    pub run_mode: RunMode,
    /// A capability token and who presents it.
    pub token: Option<(String, policy::Peer)>,
    /// Whoever follows its job.
    pub live: Option<Arc<tool::JobFollower>>,
    /// Its changes are dropped and not proposed.
    pub discard: bool,
    /// What the process of its job is called, and may spend.
    pub job: JobTerms,
}

/// What came of an operator's call.
#[derive(Clone, Debug)]
pub struct CallReport {
    pub outcome: CallOutcome,
    /// Where its changes wait.
    pub task: Option<TaskId>,
    /// Paths whose changes were dropped, as it was asked.
    pub dropped: Vec<String>,
}

impl CallReport {
    fn new(outcome: CallOutcome, task: Option<TaskId>) -> CallReport {
        CallReport { outcome, task, dropped: Vec::new() }
    }
}

impl Tasks {
    /// A task that holds one call of the operator's own. It is queued and taken up in one commit: a crash leaves none that nobody begins.
    async fn add_operator_call(&self, zone: ZoneId, prompt: String, discard: bool) -> Result<TaskId, Stop> {
        let marks = TaskMarks { discard, is_begun: true, ..TaskMarks::default() };
        Ok(self.enqueue(zone, Some(Pid::OPERATOR), Mode::Call, prompt, String::new(), 0, None, marks).await?.task)
    }

    /// Takes up a parked call of the operator's own, if `id` is one.
    async fn resume_operator_call(&self, id: TaskId) -> Result<Option<TaskId>, Stop> {
        let task = self.ledger.task(id)?;
        if task.mode != Mode::Call || task.merge.is_some() {
            return Ok(None);
        }
        self.ledger.record(TaskStarted { pid: task.pid, task: Some(id), episode: task.episodes + 1 }).await?;
        Ok(Some(id))
    }
}

impl Kernel {
    /// Takes any process's call through the door; whoever accepted it says which process speaks.
    pub async fn call_as(&self, request: &Request) -> Result<CallOutcome, Fault> {
        call::run(self, request).await
    }

    /// One call of the operator's own. What changes files gets a task and a room; its changes wait for their merge like any other.
    pub async fn call(
        &self,
        path: &Path,
        task: Option<TaskId>,
        tool: &str,
        input: Value,
        options: CallOptions,
    ) -> Result<CallReport, Stop> {
        options.job.check()?;
        let top = gate::locate(path).await?;
        let zone = self.gate.policies.zone(&top)?.id;
        let in_room = self.tools.registry.find(tool).is_ok_and(|tool| tool.manifest().room == tool::Room::Sandbox);
        let own = match task {
            Some(id) => self.tasks.resume_operator_call(id).await?,
            None if in_room => Some(self.tasks.add_operator_call(zone, format!("call {tool}"), options.discard).await?),
            None => None,
        };
        let CallOptions { run_mode, token, live, discard, job } = options;
        let request = Request { run_mode, token, live, job, ..Request::new(Pid::OPERATOR, task.or(own), zone, tool, input) };
        let outcome = call::run(self, &request).await;
        match own {
            // Behind a pointer: most calls have no such end, and need no space for it.
            Some(id) => Box::pin(self.end_own_call(id, &request, outcome, discard)).await,
            None => Ok(CallReport::new(outcome?, None)),
        }
    }

    /// Offers or drops what a call of the operator's own wrote in its task's room.
    async fn end_own_call(
        &self,
        id: TaskId,
        request: &Request,
        outcome: Result<CallOutcome, Fault>,
        discard: bool,
    ) -> Result<CallReport, Stop> {
        if let Some(refusal) = self.ledger.cancelled(id) {
            return Err(refusal.into());
        }
        // What a kernel on its way down ended is no outcome: the next one keeps what was written, and offers it.
        if self.instance.stopping() {
            let interrupted = Fault::new(FaultKind::Stopping, "the kernel is stopping", format!("{id} was interrupted"));
            return Err(match discard {
                true => interrupted.fix("what it wrote is dropped, as asked"),
                false => interrupted.fix("the next kernel keeps what it wrote").remedy(world::Remedy::ShowChanges { task: id }),
            }
            .into());
        }
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(fault) => {
                self.keep_or_fail(id, &fault).await?;
                return Err(fault.into());
            }
        };
        if let CallEnd::Pending(Refusal { review: Some(review), .. }) = &outcome.end {
            self.ledger.record(TaskParked { pid: Pid::OPERATOR, task: Some(id), review: *review }).await?;
            return Ok(CallReport::new(outcome, Some(id)));
        }
        if discard {
            let dropped = changed(&self.workspaces, id).await;
            let told = format!("{}, its changes dropped as asked", request.tool);
            merge::finish(self, &self.ledger.task(id)?, &told, Vec::new()).await?;
            return Ok(CallReport { outcome, task: None, dropped: dropped? });
        }
        let task = self.ledger.task(id)?;
        self.tasks.work_on(id, merge::propose(self, &task, &request.tool)).await?;
        let waits = !self.ledger.task(id)?.state.ended();
        Ok(CallReport::new(outcome, waits.then_some(id)))
    }

    /// After a fault, what the operator's own call wrote is offered all the same. Where that fails too the call is over.
    async fn keep_or_fail(&self, id: TaskId, fault: &Fault) -> Result<(), Fault> {
        if self.instance.stopping() {
            return Ok(());
        }
        let task = self.ledger.task(id).ok().filter(|task| task.workspace.is_some() && !task.discard);
        match task {
            Some(task) if self.offer(&task, &fault.to_string()).await.is_ok() => Ok(()),
            _ => episode::fail(self, Pid::OPERATOR, id, fault.to_string()).await,
        }
    }

    /// Offers what an interrupted call of the operator's own wrote, as a task's changes are.
    async fn offer(&self, task: &Task, why: &str) -> Result<(), Stop> {
        match self.ledger.merge_of(task) {
            Some(merge) => merge::resume(self, task, merge).await,
            None => merge::propose(self, task, &format!("{}, interrupted: {why}", task.prompt)).await,
        }
    }

    /// Offers what calls wrote that the last kernel did not bring to an end. What can't be offered stays where it is, for the next boot.
    pub(crate) async fn offer_left(self: Arc<Self>, left: Vec<TaskId>) {
        for id in left {
            let offered = async { self.offer(&self.ledger.task(id)?, "the kernel ended").await };
            if let Err(stop) = offered.await
                && !self.instance.stopping()
            {
                world::log!("skep: what {id} wrote is kept and can't be offered yet: {stop}");
            }
        }
    }
}

/// What a task's room changed, by path, without keeping any of it.
async fn changed(workspaces: &OpenWorkspaces, id: TaskId) -> Result<Vec<String>, Fault> {
    let Some(opened) = workspaces.find(id) else { return Ok(Vec::new()) };
    let found = opened.room.changes().await.map_err(workspace::room_fault)?;
    let paths = found.changes.iter().map(|change| &change.path).chain(found.refused.iter().map(|no| &no.path));
    Ok(paths.map(|path| path.to_string_lossy().into_owned()).collect())
}
