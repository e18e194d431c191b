//! One stretch of work on one task: from its start, or from where it was left, to its end or to a question.

mod memory;

use crate::call::{self, End, Request};
use crate::job::JobTerms;
use crate::{Kernel, merge};
use brain::script::BrainScript;
use brain::{Brain, BrainInput, BrainSpec, CallResult, Move, OwnCallId, ToolCall};
use memory::Past;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tool::RunMode;
use world::event::{BrainSaid, TaskFailed, TaskParked, TaskStarted};
use world::{CallId, Code, Hands, Mode, Pid, Refusal, ReviewId, Task, TaskId, limits};
use world::{Fault, FaultKind, Stop};

/// How long to wait before a task that the disk stopped is tried again.
const RETRY_MS: u64 = 1_000;

pub(crate) async fn run(kernel: Arc<Kernel>, pid: Pid, id: TaskId) {
    if let Err(stop) = resume(&kernel, pid, id).await {
        fail_or_retry(&kernel, pid, id, stop).await;
        if let Err(fault) = kernel.compare_ended(id).await {
            eprintln!("skep: {id} was not compared: {fault}");
        }
    }
    if let Err(fault) = kernel.forget_questions(Some(id)) {
        eprintln!("skep: what was kept for questions of {id} was not deleted: {fault}");
    }
    kernel.episodes.lock().remove(&id);
    kernel.ready.notify_one();
}

/// Takes a task up where it stands.
async fn resume(kernel: &Kernel, pid: Pid, id: TaskId) -> Result<(), Stop> {
    let task = kernel.task(id)?;
    if let Some(merge) = task.merge.and_then(|merge| kernel.ledger.look(|world| world.merges.get(&merge).cloned())) {
        return merge::resume(kernel, &task, merge).await;
    }
    kernel.ledger.record(TaskStarted { pid, task: Some(id), episode: task.episodes + 1 }).await?;
    kernel.workspace_of(id).await?;
    let said = drive(kernel, &task).await?;
    kernel.ledger.flush_progress(pid, Some(id)).await?;
    match said {
        EpisodeEnd::Done(summary) => merge::propose(kernel, &task, &summary).await,
        EpisodeEnd::Asked => Ok(()),
    }
}

enum EpisodeEnd {
    Done(String),
    /// A person must answer; the task is parked and this episode over.
    Asked,
}

/// The loop that drives a brain: its move, our answer.
async fn drive(kernel: &Kernel, task: &Task) -> Result<EpisodeEnd, Stop> {
    let (pid, id) = (task.pid, Some(task.id));
    let mut brain = open_brain(kernel, task)?;
    let memory = memory::recall(kernel, task)?;
    let mut past = Past::of(kernel, task)?;
    let mut input =
        BrainInput::Start { prompt: kernel.prompt(task).await?, settled: task.calls_settled, resumed: task.episodes > 0, memory };
    let mut own = OwnCalls::default();
    loop {
        let patience = Duration::from_millis(limits::NO_PROGRESS_MS);
        let next = tokio::time::timeout(patience, brain.next(input)).await;
        let next = next
            .map_err(|_| Fault::new(FaultKind::Brain, "the brain made no move", format!("{} minutes passed", patience.as_secs() / 60)))?;
        let next = next.map_err(|fault| Fault { fix: fault.hint.clone(), ..Fault::new(FaultKind::Brain, "the brain stopped", fault) })?;
        if let Move::Report { id, ok, text } = &next {
            own.report(kernel, *id, *ok, text).await?;
        }
        if matches!(next, Move::Done(_) | Move::Wait(_)) {
            own.close(kernel).await?;
        }
        if let Some(checkpoint) = brain.checkpoint() {
            memory::keep(kernel, task, checkpoint).await?;
        }
        input = match next {
            Move::Say(text) => {
                let text = kernel.redactor.text(&text).into_owned();
                kernel.ledger.progress(pid, id, BrainSaid { pid, task: id, text })?;
                BrainInput::Continue
            }
            Move::Report { .. } => BrainInput::Continue,
            Move::Done(summary) => return Ok(EpisodeEnd::Done(kernel.redactor.text(&summary).into_owned())),
            Move::Wait(review) => return park(kernel, task, review).await,
            Move::Call(calls) => match ask_all(kernel, task, calls, &mut past).await? {
                CallsOutcome::Results(results) => BrainInput::Results(results),
                CallsOutcome::Asked(review) => {
                    own.close(kernel).await?;
                    return park(kernel, task, review).await;
                }
            },
            Move::Own { id, call } => {
                own.check_free(id)?;
                let outcome = ask(kernel, task, call, Hands::Caller).await?;
                match outcome.end {
                    End::Pending(Refusal { review: Some(review), .. }) => {
                        own.close(kernel).await?;
                        return park(kernel, task, review).await;
                    }
                    End::Refused(refusal) | End::Pending(refusal) => {
                        BrainInput::OwnCallRefused { id, reason: refusal.reason, hint: refusal.hint }
                    }
                    End::CallerExecutes | End::Done { .. } => {
                        own.0.extend(outcome.call.map(|call| (id, call)));
                        BrainInput::OwnCallAllowed(id)
                    }
                }
            }
        };
        // A brain that never waits for anything must not starve the others.
        tokio::task::yield_now().await;
    }
}

/// The open calls that a brain makes with its own hands.
#[derive(Default)]
struct OwnCalls(BTreeMap<OwnCallId, CallId>);

impl OwnCalls {
    /// Two open calls of one id could not be told apart when one is reported.
    fn check_free(&self, id: OwnCallId) -> Result<(), Fault> {
        if self.0.contains_key(&id) {
            return Err(Fault::new(FaultKind::Brain, "the brain used an id twice", format!("its own call {} is open", id.0)));
        }
        Ok(())
    }

    /// Takes the brain's word for how a call went. A report on a call that is not open is ignored.
    async fn report(&mut self, kernel: &Kernel, id: OwnCallId, ok: bool, text: &str) -> Result<(), Fault> {
        match self.0.remove(&id) {
            Some(call) => call::report(kernel, call, ok, text).await,
            None => Ok(()),
        }
    }

    /// Ends what the brain did not report on before it stopped.
    async fn close(&mut self, kernel: &Kernel) -> Result<(), Fault> {
        while let Some((_, call)) = self.0.pop_first() {
            call::report(kernel, call, false, "unreported").await?;
        }
        Ok(())
    }
}

/// What came of a brain's calls.
enum CallsOutcome {
    Results(Vec<CallResult>),
    /// A person must answer one of them. The others have their outcome on record, where the brain finds it when it asks again.
    Asked(ReviewId),
}

/// Takes calls through the door side by side. What has its outcome on record is not made again.
async fn ask_all(kernel: &Kernel, task: &Task, calls: Vec<ToolCall>, past: &mut Past) -> Result<CallsOutcome, Stop> {
    let known: Vec<Option<CallResult>> = calls.iter().map(|call| past.take(kernel, call)).collect();
    past.forget();
    let calls = calls.into_iter().zip(known).map(|(call, known)| async {
        match known {
            Some(ended) => Ok((Some(ended), None)),
            None => Ok(match ask(kernel, task, call, Hands::Kernel).await?.end {
                End::Done { ok, value } => (Some(CallResult::Output { ok, value }), None),
                End::Pending(Refusal { review: Some(review), .. }) => (None, Some(review)),
                End::Refused(refusal) | End::Pending(refusal) => (Some(CallResult::Refused(refusal)), None),
                End::CallerExecutes => unreachable!("leave is for the caller's own hands"),
            }),
        }
    });
    let ends = side_by_side(calls.collect()).await.into_iter().collect::<Result<Vec<_>, Stop>>()?;
    Ok(match ends.iter().find_map(|(_, review)| *review) {
        Some(review) => CallsOutcome::Asked(review),
        None => CallsOutcome::Results(ends.into_iter().filter_map(|(ended, _)| ended).collect()),
    })
}

async fn ask(kernel: &Kernel, task: &Task, call: ToolCall, hands: Hands) -> Result<call::Outcome, Stop> {
    let request = Request { hands, ..Request::new(task.pid, Some(task.id), task.zone, &call.tool, call.input) };
    Ok(call::run(kernel, &request).await?)
}

/// How many of a brain's calls are under way at once: well below what a process may have open.
const ABREAST: usize = limits::CALLS_OPEN_MAX / 2;

/// The outputs of futures that run on this task together, so many abreast, in their order.
async fn side_by_side<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut left = 0;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if left == ABREAST {
                break;
            }
            match future.as_mut().poll(context) {
                Poll::Ready(value) => *output = Some(value),
                Poll::Pending => left += 1,
            }
        }
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

async fn park(kernel: &Kernel, task: &Task, review: ReviewId) -> Result<EpisodeEnd, Stop> {
    kernel.ledger.record(TaskParked { pid: task.pid, task: Some(task.id), review }).await?;
    Ok(EpisodeEnd::Asked)
}

fn open_brain(kernel: &Kernel, task: &Task) -> Result<Box<dyn Brain>, Stop> {
    let spec = BrainSpec::parse(&task.brain).map_err(|unknown| Refusal::new(Code::Unsupported, unknown.to_string()))?;
    let blob = match &spec {
        BrainSpec::Native { .. } => return kernel.open_native(task, spec.model().unwrap_or_default()),
        BrainSpec::Script(blob) => blob,
    };
    let bytes = kernel.ledger.blob(blob)?;
    let script = BrainScript::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|error| Fault::new(FaultKind::Brain, "the script does not parse", error))?;
    Ok(Box::new(script))
}

/// A task ends with the reason for its end on record. Where nothing can be recorded it waits for better times.
async fn fail_or_retry(kernel: &Kernel, pid: Pid, id: TaskId, stop: Stop) {
    let (reason, waits) = match &stop {
        Stop::Refused(refusal) => (refusal.reason.clone(), false),
        Stop::Failed(fault) => (fault.to_string(), matches!(fault.kind, FaultKind::DiskFull | FaultKind::Io | FaultKind::Stopping)),
    };
    if kernel.stopping() {
        return;
    }
    // The record has one line for whoever looks at it later, so the remedy stands in it.
    let remedy = match &stop {
        Stop::Refused(refusal) => refusal.hint.as_ref(),
        Stop::Failed(fault) => fault.fix.as_ref(),
    };
    let reason = remedy.map_or(reason.clone(), |remedy| format!("{reason} (to fix it: {remedy})"));
    let failed = if waits { Err(reason.clone()) } else { fail(kernel, pid, id, reason).await.map_err(|fault| fault.to_string()) };
    if let Err(why) = failed {
        eprintln!("skep: {id} waits: {why}");
        tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
    }
}

async fn fail(kernel: &Kernel, pid: Pid, id: TaskId, reason: String) -> Result<(), Fault> {
    let pending = kernel.ledger.commit(|world, _| match world.tasks.get(&id) {
        Some(task) if !task.state.ended() => (vec![TaskFailed { pid, task: Some(id), reason }.into()], ()),
        _ => (Vec::new(), ()),
    })?;
    pending.durable().await?;
    kernel.close_workspace(pid, id).await
}

/// How an operator's call is to be made.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub run_mode: RunMode,
    /// A capability token and who presents it.
    pub token: Option<(String, policy::Peer)>,
    /// Whoever follows its job.
    pub live: Option<Arc<tool::Live>>,
    /// Its changes are dropped and not proposed.
    pub discard: bool,
    /// What the process of its job is called, and may spend.
    pub job: JobTerms,
}

/// What came of an operator's call.
#[derive(Clone, Debug)]
pub struct Called {
    pub outcome: call::Outcome,
    /// Where its changes wait.
    pub task: Option<TaskId>,
    /// Paths whose changes were dropped, as it was asked.
    pub dropped: Vec<String>,
}

impl Called {
    fn new(outcome: call::Outcome, task: Option<TaskId>) -> Called {
        Called { outcome, task, dropped: Vec::new() }
    }
}

impl Kernel {
    /// Takes any process's call through the door; whoever accepted it says which process speaks.
    pub async fn make(&self, request: &Request) -> Result<call::Outcome, Fault> {
        call::run(self, request).await
    }

    /// One call of the operator's own. What changes files gets a task and a room; its changes wait for their merge like any other.
    pub async fn call(&self, path: &Path, task: Option<TaskId>, tool: &str, input: Value, ask: Ask) -> Result<Called, Stop> {
        ask.job.check()?;
        let top = crate::zone::locate(path).await?;
        let zone = self.zone(&top)?.id;
        let in_room = self.tools.find(tool).is_ok_and(|tool| tool.manifest().room == tool::Room::Sandbox);
        let own = match task {
            Some(id) => self.take_own(id).await?,
            None if in_room => Some(self.add_own(zone, format!("call {tool}"), ask.discard).await?),
            None => None,
        };
        let Ask { run_mode, token, live, discard, job } = ask;
        let request = Request { run_mode, token, live, job, ..Request::new(Pid::OPERATOR, task.or(own), zone, tool, input) };
        let outcome = call::run(self, &request).await;
        if let Some(refusal) = own.and_then(|id| self.cancelled(id)) {
            return Err(refusal.into());
        }
        let Some(id) = own else { return Ok(Called::new(outcome?, None)) };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(fault) => {
                self.keep_or_fail(id, &fault).await?;
                return Err(fault.into());
            }
        };
        // What a kernel on its way down ended is no outcome: the next one keeps what was written, and offers it.
        if self.stopping() {
            let fix = match discard {
                true => "what it wrote is dropped, as asked".to_owned(),
                false => format!("the next kernel keeps what it wrote: `skep diff {id}`"),
            };
            return Err(Fault::new(FaultKind::Stopping, "the kernel is stopping", format!("{id} was interrupted")).fix(fix).into());
        }
        if let End::Pending(Refusal { review: Some(review), .. }) = &outcome.end {
            self.ledger.record(TaskParked { pid: Pid::OPERATOR, task: Some(id), review: *review }).await?;
            return Ok(Called::new(outcome, Some(id)));
        }
        if discard {
            let dropped = self.changed(id).await;
            merge::finish(self, &self.task(id)?, &format!("{tool}, its changes dropped as asked"), Vec::new()).await?;
            return Ok(Called { outcome, task: None, dropped: dropped? });
        }
        let task = self.task(id)?;
        self.work_on(id, merge::propose(self, &task, &request.tool)).await?;
        let waits = !self.task(id)?.state.ended();
        Ok(Called::new(outcome, waits.then_some(id)))
    }

    /// After a fault, what the operator's own call wrote is offered all the same. Where that fails too the call is over.
    async fn keep_or_fail(&self, id: TaskId, fault: &Fault) -> Result<(), Fault> {
        if self.stopping() {
            return Ok(());
        }
        let task = self.task(id).ok().filter(|task| task.workspace.is_some() && !task.discard);
        match task {
            Some(task) if self.offer(&task, &fault.to_string()).await.is_ok() => Ok(()),
            _ => fail(self, Pid::OPERATOR, id, fault.to_string()).await,
        }
    }

    /// Offers what an interrupted call of the operator's own wrote, as a task's changes are.
    async fn offer(&self, task: &Task, why: &str) -> Result<(), Stop> {
        match task.merge.and_then(|merge| self.ledger.look(|world| world.merges.get(&merge).cloned())) {
            Some(merge) => merge::resume(self, task, merge).await,
            None => merge::propose(self, task, &format!("{}, interrupted: {why}", task.prompt)).await,
        }
    }

    /// Offers what calls wrote that the last kernel did not bring to an end. What can't be offered stays where it is, for the next boot.
    pub(crate) async fn offer_left(self: Arc<Self>, left: Vec<TaskId>) {
        for id in left {
            let offered = async { self.offer(&self.task(id)?, "the kernel ended").await };
            if let Err(stop) = offered.await
                && !self.stopping()
            {
                eprintln!("skep: what {id} wrote is kept and can't be offered yet: {stop}");
            }
        }
    }

    /// What a task's room changed, by path, without keeping any of it.
    async fn changed(&self, id: TaskId) -> Result<Vec<String>, Fault> {
        let Some(desk) = self.desks.find(id) else { return Ok(Vec::new()) };
        let found = desk.room.changes().await.map_err(workspace::room_fault)?;
        let paths = found.changes.iter().map(|change| &change.path).chain(found.refused.iter().map(|no| &no.path));
        Ok(paths.map(|path| path.to_string_lossy().into_owned()).collect())
    }

    /// Takes up a parked call of the operator's own, if `id` is one.
    async fn take_own(&self, id: TaskId) -> Result<Option<TaskId>, Stop> {
        let task = self.task(id)?;
        if task.mode != Mode::Call || task.merge.is_some() {
            return Ok(None);
        }
        self.ledger.record(TaskStarted { pid: task.pid, task: Some(id), episode: task.episodes + 1 }).await?;
        Ok(Some(id))
    }
}
