//! One stretch of work on one task: from its start, or from where it was left, to its end or to a question.

mod memory;

use crate::call::{self, CallEnd};
use crate::{Kernel, merge};
use brain::script::BrainScript;
use brain::{Brain, BrainInput, BrainSpec, CallResult, Move, OwnCallId, ToolCall};
use gate::Request;
use memory::Past;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use world::event::{BrainSaid, CallLost, TaskFailed, TaskParked, TaskStarted};
use world::{CallId, Code, Hands, Pid, Refusal, ReviewId, Task, TaskId, limits};
use world::{Fault, FaultKind, Stop};

/// How long to wait before a task that the disk stopped is tried again.
const RETRY_MS: u64 = 1_000;

pub(crate) async fn run(kernel: Arc<Kernel>, pid: Pid, id: TaskId) {
    if let Err(stop) = resume(&kernel, pid, id).await {
        fail_or_retry(&kernel, pid, id, stop).await;
        if let Err(fault) = kernel.compare_ended(id).await {
            world::log!("skep: {id} was not compared: {fault}");
        }
    }
    if let Err(fault) = kernel.ledger.forget_questions(Some(id)) {
        world::log!("skep: what was kept for questions of {id} was not deleted: {fault}");
    }
    kernel.tasks.episodes.lock().remove(&id);
    kernel.tasks.wake();
}

/// Takes a task up where it stands.
async fn resume(kernel: &Kernel, pid: Pid, id: TaskId) -> Result<(), Stop> {
    let task = kernel.ledger.task(id)?;
    if let Some(merge) = kernel.ledger.merge_of(&task) {
        return merge::resume(kernel, &task, merge).await;
    }
    begin(kernel, &task).await?;
    kernel.workspace_of(id).await?;
    let said = drive(kernel, &task).await?;
    kernel.ledger.flush_progress(pid, Some(id)).await?;
    match said {
        EpisodeEnd::Done(summary) => merge::propose(kernel, &task, &summary).await,
        EpisodeEnd::Asked => Ok(()),
    }
}

/// Records that the episode begins. A call of the one before whose outcome could not be recorded is lost: at most once also holds where
/// the kernel lived on and only its disk failed.
async fn begin(kernel: &Kernel, task: &Task) -> Result<(), Fault> {
    let (pid, id) = (task.pid, Some(task.id));
    let runs = |call: CallId| kernel.tasks.works.has(|part| part.call == Some(call));
    let pending = kernel.ledger.commit(|world, _| {
        // A request to a model is settled by what it cost.
        let open = world
            .calls
            .iter()
            .filter(|(call, open)| open.task == id && open.pid == pid && !world.books.reserved.contains_key(call) && !runs(**call));
        let lost = open.map(|(call, open)| {
            let why = "its outcome could not be recorded".to_owned();
            CallLost { pid, task: id, call: *call, tool: open.tool.clone(), why }.into()
        });
        let started = TaskStarted { pid, task: id, episode: task.episodes + 1 }.into();
        (lost.chain(std::iter::once(started)).collect(), ())
    })?;
    pending.durable().await
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
        BrainInput::Start { prompt: kernel.ledger.prompt(task).await?, settled: task.calls_settled, resumed: task.episodes > 0, memory };
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
                let text = kernel.ledger.redactor.text(&text).into_owned();
                kernel.ledger.progress(pid, id, BrainSaid { pid, task: id, text })?;
                BrainInput::Continue
            }
            Move::Report { .. } => BrainInput::Continue,
            Move::Done(summary) => return Ok(EpisodeEnd::Done(kernel.ledger.redactor.text(&summary).into_owned())),
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
                    CallEnd::Pending(Refusal { review: Some(review), .. }) => {
                        own.close(kernel).await?;
                        return park(kernel, task, review).await;
                    }
                    CallEnd::Refused(refusal) | CallEnd::Pending(refusal) => {
                        BrainInput::OwnCallRefused { id, hint: refusal.advice(), reason: refusal.reason }
                    }
                    CallEnd::CallerExecutes | CallEnd::Done { .. } => {
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
                CallEnd::Done { ok, value } => (Some(CallResult::Output { ok, value }), None),
                CallEnd::Pending(Refusal { review: Some(review), .. }) => (None, Some(review)),
                CallEnd::Refused(refusal) | CallEnd::Pending(refusal) => (Some(CallResult::Refused(refusal)), None),
                CallEnd::CallerExecutes => unreachable!("leave is for the caller's own hands"),
            }),
        }
    });
    let ends = side_by_side(calls.collect()).await.into_iter().collect::<Result<Vec<_>, Stop>>()?;
    Ok(match ends.iter().find_map(|(_, review)| *review) {
        Some(review) => CallsOutcome::Asked(review),
        None => CallsOutcome::Results(ends.into_iter().filter_map(|(ended, _)| ended).collect()),
    })
}

async fn ask(kernel: &Kernel, task: &Task, call: ToolCall, hands: Hands) -> Result<call::CallOutcome, Stop> {
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
        BrainSpec::Native { .. } => return kernel.models.open_native(task, spec.model().unwrap_or_default(), &kernel.tools.registry),
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
    if kernel.instance.stopping() {
        return;
    }
    // The record has one line for whoever looks at it later, so the remedy stands in it.
    let remedy = match &stop {
        Stop::Refused(refusal) => refusal.advice(),
        Stop::Failed(fault) => fault.advice(),
    };
    let reason = remedy.map_or(reason.clone(), |remedy| format!("{reason} (to fix it: {remedy})"));
    let failed = if waits { Err(reason.clone()) } else { fail(kernel, pid, id, reason).await.map_err(|fault| fault.to_string()) };
    if let Err(why) = failed {
        world::log!("skep: {id} waits: {why}");
        tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
    }
}

/// Records that a task failed, and closes its workspace.
pub(crate) async fn fail(kernel: &Kernel, pid: Pid, id: TaskId, reason: String) -> Result<(), Fault> {
    let pending = kernel.ledger.commit(|world, _| match world.tasks.get(&id) {
        Some(task) if !task.state.ended() => (vec![TaskFailed { pid, task: Some(id), reason }.into()], ()),
        _ => (Vec::new(), ()),
    })?;
    pending.durable().await?;
    kernel.close_workspace(pid, id).await
}
