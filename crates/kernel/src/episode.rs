//! One stretch of work on one task: from its start, or from where it was left, to its end or to a question.

mod ending;
pub(crate) mod memory;
mod own_call;
mod tree_call;

use crate::phase::AfterTurn;
use crate::talk::TalkEnd;
use crate::{Kernel, call, hook, merge, phase, project_text};
use agent::{Announced, TreeTool};
use brain::script::BrainScript;
use brain::{Brain, BrainFault, BrainInput, BrainSpec, CallResult, FurtherTurns, Move, ToolCall, ToolSpec};
use compare::RecordedOutcomes;
pub(crate) use ending::fail;
use ending::{Stopping, broken_off, fail_or_retry, stop, unasked, ungated};
use gate::{CallEnd, CallOutcome, Request};
use memory::Past;
pub(crate) use own_call::{OwnAnswer, OwnCalls};
use room::WorkKey;
use session::SessionEnd;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use world::event::{BrainSaid, CallLost, TaskParked, TaskStarted};
use world::{CallId, Code, Hands, Mode, Pid, Refusal, RetryCause, ReviewId, Task, TaskId, limits};
use world::{Fault, FaultKind, Stop};

/// How long to wait before a brain that crashed is started again, doubled each time.
const RESTART_MS: u64 = 100;

/// Starts work on a task, unless somebody works on it or the kernel stops.
pub(crate) fn start(kernel: &Arc<Kernel>, pid: Pid, id: TaskId) {
    let mut episodes = kernel.tasks.episodes.lock();
    if !kernel.instance.stopping() && !episodes.contains_key(&id) {
        let (kernel, hold) = (kernel.clone(), kernel.tasks.works.begin(WorkKey::of_task(id)));
        let work = async move {
            run(kernel, pid, id).await;
            drop(hold);
        };
        episodes.insert(id, tokio::spawn(work).abort_handle());
    }
}

async fn run(kernel: Arc<Kernel>, pid: Pid, id: TaskId) {
    match resume(&kernel, pid, id).await {
        Ok(heard) => {
            kernel.tasks.unreadable.lock().remove(&id);
            if let Err(stop) = kernel.take_up_unheard(id, heard).await {
                world::log!("skep: what was said to {id} at its end waits: {stop}");
            }
        }
        Err(stop) => fail_or_retry(&kernel, pid, id, stop).await,
    }
    if let Err(fault) = kernel.compare_ended(id).await {
        world::log!("skep: {id} was not compared: {fault}");
    }
    if let Err(fault) = kernel.ledger.forget_questions(Some(id)) {
        world::log!("skep: what was kept for questions of {id} was not deleted: {fault}");
    }
    kernel.tasks.episodes.lock().remove(&id);
    kernel.tasks.left.notify_waiters();
    kernel.tasks.wake();
}

/// Takes a task up where it stands. Gives how much of what a person said to it has been heard.
async fn resume(kernel: &Kernel, pid: Pid, id: TaskId) -> Result<usize, Stop> {
    let mut task = kernel.ledger.task(id)?;
    if let Some(merge) = kernel.ledger.merge_of(&task) {
        return merge::resume(kernel, &task, merge).await.map(|()| task.further.len());
    }
    // INVARIANT: before the task is on record as running, so that no stop of this episode is taken back.
    kernel.models.resume_requests_of(id);
    begin(kernel, &task).await?;
    if has_room_at_once(&task) {
        kernel.workspace_of(id).await?;
    }
    if task.proposes_kept {
        phase::hold_to_seen(kernel, &task).await?;
        let summary = match merge::without_notes(task.summary.as_deref().unwrap_or_default()) {
            "" => "kept work".to_owned(),
            again if again.starts_with("kept work") => again.to_owned(),
            said => format!("kept work ({said})"),
        };
        return merge::propose(kernel, &task, &summary).await.map(|()| task.further.len());
    }
    phase::begin(kernel, &task).await?;
    // The brain is told of the phase that has begun, not of the one before it.
    task.workflow = kernel.ledger.task(id)?.workflow;
    let mut crashes = 0;
    loop {
        let said = drive(kernel, &task).await?;
        kernel.ledger.flush_progress(pid, Some(id)).await?;
        let heard = task.further.len();
        match said {
            // Only this brain is started again, in the same conversation; its task goes on where it was.
            EpisodeEnd::Crashed { reason } if crashes < limits::BRAIN_RESTARTS_MAX => {
                crashes += 1;
                world::log!("skep: the brain of {id} is started again ({crashes}): {reason}");
                tokio::time::sleep(Duration::from_millis(RESTART_MS << crashes)).await;
                task = kernel.ledger.task(id)?;
                begin(kernel, &task).await?;
                task = kernel.ledger.task(id)?;
            }
            EpisodeEnd::Crashed { reason } => {
                let stopping = Stopping { reason, cause: RetryCause::Fault, remedy: None };
                return stop(kernel, pid, id, stopping).await.map(|()| heard);
            }
            EpisodeEnd::Done(summary) => {
                task = kernel.ledger.task(id)?;
                // Somebody said more meanwhile: that is the next turn, in the same room.
                if task.further.len() == heard {
                    match phase::after_turn(kernel, &task).await? {
                        AfterTurn::Propose => return merge::propose(kernel, &task, &summary).await.map(|()| heard),
                        AfterTurn::Again => task = kernel.ledger.task(id)?,
                        AfterTurn::Stopped(reason) => {
                            let stopping = Stopping { reason, cause: RetryCause::Fault, remedy: None };
                            return stop(kernel, pid, id, stopping).await.map(|()| heard);
                        }
                    }
                }
            }
            EpisodeEnd::Asked => return Ok(heard),
            EpisodeEnd::Stopped { reason, cause } => {
                return stop(kernel, pid, id, Stopping { reason, cause, remedy: None }).await.map(|()| heard);
            }
            EpisodeEnd::Failed { reason } => return Ok(fail(kernel, pid, id, reason).await.map(|()| heard)?),
        }
    }
}

/// Whether a task's room is opened before its brain is. A script sees nothing of the project but by calls, so its room waits for the first
/// of them, and one that makes none has no room; a room that was there, or what is kept of one, is there from the start.
fn has_room_at_once(task: &Task) -> bool {
    let is_script = task.session.is_some() || matches!(BrainSpec::parse(&task.brain), Ok(BrainSpec::Script(_)));
    !is_script || task.workspace.is_some() || task.kept.is_some()
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
    pending.durable().await?;
    if task.timeout_ms.is_some() {
        // Its time goes from here on.
        kernel.tasks.wake();
    }
    Ok(())
}

enum EpisodeEnd {
    Done(String),
    /// A person must answer; the task is parked and this episode over.
    Asked,
    /// Its program ended in the middle of its work.
    Crashed {
        reason: String,
    },
    /// The brain could not go on, and later it can.
    Stopped {
        reason: String,
        cause: RetryCause,
    },
    /// A session came to no good end.
    Failed {
        reason: String,
    },
}

/// Opens a brain, has it work, and closes it, whatever came of it: nothing of it runs when its changes are looked at.
async fn drive(kernel: &Kernel, task: &Task) -> Result<EpisodeEnd, Stop> {
    if agent::is_talk(task) {
        return match kernel.hold_talk(task).await? {
            TalkEnd::Over(summary) => Ok(EpisodeEnd::Done(summary)),
            TalkEnd::Asked(review) => park(kernel, task, review).await,
        };
    }
    if task.session.is_some() {
        return work_on_session(kernel, task).await;
    }
    let mut brain = open_brain(kernel, task).await?;
    let has_hands = matches!(BrainSpec::parse(&task.brain), Ok(BrainSpec::Vendor { .. } | BrainSpec::Acp(_)));
    let mut announced = has_hands.then(Announced::default);
    let end = match converse(kernel, task, brain.as_mut(), announced.as_mut()).await {
        Ok(EpisodeEnd::Done(summary)) => asked_at_end(kernel, task, &mut brain, summary).await,
        end => end,
    };
    match end {
        Ok(EpisodeEnd::Done(_)) => brain.rest().await,
        _ => brain.close().await,
    }
    if let Some(checkpoint) = brain.checkpoint() {
        memory::keep(kernel, task, checkpoint).await?;
    }
    // Nothing of it writes any more.
    match (&end, announced) {
        (Ok(EpisodeEnd::Done(_)), mut announced) => match kernel.clients.unannounced(announced.as_mut(), task).await? {
            None => end,
            Some(written) => unasked(kernel, task, &written).await,
        },
        _ => end,
    }
}

/// Has a session's plans carried out. Its steps are calls through the door, as a brain's are.
async fn work_on_session(kernel: &Kernel, task: &Task) -> Result<EpisodeEnd, Stop> {
    let gone = || Fault::new(FaultKind::Stopping, "the kernel is stopping", "its last user has gone");
    let host = kernel.me.upgrade().ok_or_else(gone)?;
    match session::run(host, task.id).await? {
        SessionEnd::Done(summary) => Ok(EpisodeEnd::Done(summary)),
        SessionEnd::Asked(review) => park(kernel, task, review).await,
        SessionEnd::Stopped { reason, cause } => Ok(EpisodeEnd::Stopped { reason, cause }),
        SessionEnd::Failed(reason) => Ok(EpisodeEnd::Failed { reason }),
    }
}

/// Has the brain asked for the artifacts of its finished task, unless a person said something more meanwhile.
async fn asked_at_end(kernel: &Kernel, task: &Task, brain: &mut Box<dyn Brain>, summary: String) -> Result<EpisodeEnd, Stop> {
    kernel.ledger.flush_progress(task.pid, Some(task.id)).await?;
    if kernel.ledger.task(task.id)?.further.len() > task.further.len() {
        return Ok(EpisodeEnd::Done(summary));
    }
    Ok(match hook::run(kernel, task, brain).await? {
        None => EpisodeEnd::Done(summary),
        Some(tool) => ungated(&tool),
    })
}

/// The loop that drives a brain: its move, our answer.
async fn converse(kernel: &Kernel, task: &Task, brain: &mut dyn Brain, mut announced: Option<&mut Announced>) -> Result<EpisodeEnd, Stop> {
    let memory = memory::recall(kernel, task)?;
    let mut past = Past::of(kernel, task)?;
    let mut recorded = RecordedOutcomes::of(&kernel.gate, task)?;
    let settled_before = task.further.last().and_then(|further| further.settled);
    let further = FurtherTurns { prompts: kernel.ledger.further_prompts(task).await?, settled_before };
    let prompt = with_pins(kernel, task, kernel.ledger.prompt(task).await?)?;
    let mut input = BrainInput::Start { prompt, settled: task.calls_settled, resumed: task.episodes > 0, memory, further };
    let mut own = OwnCalls::default();
    loop {
        let patience = kernel.instance.settings.in_force().brain_patience_time();
        let next = tokio::select! {
            next = tokio::time::timeout(patience, brain.next(input)) => next,
            () = kernel.models.exhaustion.lasts(task.id) => Ok(Err(BrainFault::of_machine("its budget is used up".to_owned()))),
        };
        let next = match next {
            Ok(Ok(next)) => next,
            failed => {
                own.close(kernel).await?;
                return broken_off(kernel, task, brain, failed.ok().and_then(Result::err), patience).await;
            }
        };
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
                record_said(kernel, task, &text)?;
                BrainInput::Continue
            }
            Move::Report { .. } => BrainInput::Continue,
            Move::Compacted => {
                record_compacted(kernel, task).await?;
                BrainInput::Continue
            }
            Move::Done(summary) => return Ok(EpisodeEnd::Done(kernel.ledger.redactor.text(&summary).into_owned())),
            Move::Wait(review) => return park(kernel, task, review).await,
            Move::Ungated { tool } => {
                own.close(kernel).await?;
                call::record_ungated(kernel, task, &tool).await?;
                return Ok(ungated(&tool));
            }
            Move::Call(calls) => {
                // INVARIANT: before the first call is described, for what an answer to it is bound to names the workspace.
                kernel.workspace_of(task.id).await?;
                match ask_all(kernel, task, calls, &mut past, &mut recorded).await? {
                    CallsOutcome::Results(results) => BrainInput::Results(results),
                    CallsOutcome::Asked(review) => {
                        own.close(kernel).await?;
                        return park(kernel, task, review).await;
                    }
                }
            }
            Move::Own { id, call } => {
                own.check_free(id)?;
                kernel.workspace_of(task.id).await?;
                if let Some(written) = kernel.clients.unannounced(announced.as_deref_mut(), task).await? {
                    own.close(kernel).await?;
                    return unasked(kernel, task, &written).await;
                }
                let OwnAnswer { heard, review } = own.ask(kernel, task, id, call).await?;
                if let Some(review) = review {
                    own.close(kernel).await?;
                    return park(kernel, task, review).await;
                }
                heard
            }
        };
        // A brain that never waits for anything must not starve the others.
        tokio::task::yield_now().await;
    }
}

/// A task's prompt with what is pinned to its worker; of a replay, with what was pinned then.
fn with_pins(kernel: &Kernel, task: &Task, mut prompt: String) -> Result<String, Stop> {
    for pin in kernel.ledger.task(task.replays.unwrap_or(task.id))?.pins {
        prompt.push_str(&format!("\n\n[pinned] {pin}"));
    }
    Ok(prompt)
}

/// Records what a brain said, without its secrets.
pub(crate) fn record_said(kernel: &Kernel, task: &Task, text: &str) -> Result<(), Fault> {
    let (pid, id) = (task.pid, Some(task.id));
    let text = kernel.ledger.redactor.text(text).into_owned();
    kernel.ledger.progress(pid, id, BrainSaid { pid, task: id, text })
}

/// A conversation that was shortened goes on as the next episode.
pub(crate) async fn record_compacted(kernel: &Kernel, task: &Task) -> Result<(), Stop> {
    let episode = kernel.ledger.task(task.id)?.episodes + 1;
    Ok(kernel.ledger.record(TaskStarted { pid: task.pid, task: Some(task.id), episode }).await?)
}

/// What came of a brain's calls.
enum CallsOutcome {
    Results(Vec<CallResult>),
    /// A person must answer one of them. The others have their outcome on record, where the brain finds it when it asks again.
    Asked(ReviewId),
}

/// Takes calls through the door side by side. What has its outcome on record is not made again. A replay makes each call, and hears what
/// the recorded one came to.
async fn ask_all(
    kernel: &Kernel,
    task: &Task,
    calls: Vec<ToolCall>,
    past: &mut Past,
    recorded: &mut RecordedOutcomes,
) -> Result<CallsOutcome, Stop> {
    let known: Vec<Option<CallResult>> = calls.iter().map(|call| past.take(kernel, call)).collect();
    past.forget();
    let heard: Vec<Option<CallResult>> = calls.iter().map(|call| recorded.take(&kernel.gate, call)).collect();
    // A brain that calls its phase complete means all that it asked for before.
    let last = calls.iter().position(|call| phase::is_workflow_call(&call.tool)).unwrap_or(calls.len());
    let calls = calls.into_iter().zip(known).map(|(call, known)| async {
        if agent::tree_call(&call.tool).is_some() {
            return tree_call::make(kernel, task, &call, known).await;
        }
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
    let (mut first, mut ends): (Vec<_>, Vec<_>) = (calls.collect(), Vec::new());
    let then = first.split_off(last);
    ends.extend(side_by_side(first).await);
    for call in then {
        ends.push(call.await);
    }
    let ends = ends.into_iter().collect::<Result<Vec<_>, Stop>>()?;
    Ok(match ends.iter().find_map(|(_, review)| *review) {
        Some(review) => CallsOutcome::Asked(review),
        None => {
            let results = ends.into_iter().zip(heard).filter_map(|((ended, _), heard)| heard.or(ended));
            CallsOutcome::Results(results.collect())
        }
    })
}

pub(crate) async fn ask(kernel: &Kernel, task: &Task, call: ToolCall, hands: Hands) -> Result<CallOutcome, Stop> {
    let request = Request { hands, ..Request::new(task.pid, Some(task.id), task.zone, &call.tool, call.input) };
    Ok(call::run(kernel, &request).await?)
}

/// How many of a brain's calls are under way at once: well below what a process may have open.
const ABREAST: usize = limits::CALLS_OPEN_MAX / 2;

/// The outputs of futures that run on this task together, so many abreast, in their order.
pub(crate) async fn side_by_side<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
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

/// The tools of the process tree that a task's brain is told of: those that a list of the task names. What they are takes more words than all other
/// tools together, in every request.
fn tree_tools_of(task: &Task) -> Vec<ToolSpec> {
    let may_change = task.present_mode() != Mode::Ask;
    let is_named = |call: &str| task.tool_lists.iter().all(|list| list.has(call)) && task.tool_lists.iter().any(|list| list.names(call));
    let is_for_it = |tool: &TreeTool| (may_change || tool.read_only) && is_named(tool.call);
    let spec = |tool: TreeTool| ToolSpec { name: tool.name.to_owned(), description: tool.description, input_schema: tool.input_schema };
    agent::tree_tools().into_iter().filter(is_for_it).map(spec).collect()
}

pub(crate) async fn open_brain(kernel: &Kernel, task: &Task) -> Result<Box<dyn Brain>, Stop> {
    let spec = BrainSpec::parse(&task.brain).map_err(|unknown| Refusal::new(Code::Unsupported, unknown.to_string()))?;
    let blob = match &spec {
        BrainSpec::Native { .. } => {
            let texts = project_text::read(kernel, task).await?;
            let (model, role) = (spec.model().unwrap_or_default(), kernel.gate.role_text(task)?);
            let told = tree_tools_of(task).into_iter().chain(phase::tools_of(task)).collect();
            return kernel.models.open_native(task, model, &kernel.tools.registry, told, texts, role);
        }
        BrainSpec::Vendor { .. } | BrainSpec::Acp(_) => {
            let gone = || Fault::new(FaultKind::Stopping, "the kernel is stopping", "its last user has gone");
            let (door, opened) = (kernel.me.upgrade().ok_or_else(gone)?, kernel.workspace_of(task.id).await?);
            return kernel.clients.open(door, &kernel.brains, task, &spec, &opened).await;
        }
        BrainSpec::Script(blob) => blob,
    };
    let bytes = kernel.ledger.blob(blob)?;
    let script = BrainScript::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|error| Fault::new(FaultKind::Brain, "the script does not parse", error))?;
    Ok(Box::new(script))
}
