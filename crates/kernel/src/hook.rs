//! What a task's brain is asked for at its end: `crew.hooks.onStop` of `skep.yml`.
//!
//! Each is one more turn of the same conversation, billed to the task, in which the task may change nothing; what the brain says is kept as
//! an artifact. **Invariant.** Nothing that goes wrong here changes how the task ended: it is recorded with the artifact, and the next one is
//! asked for. Only a tool that ran without asking stops the task, as it does at any other time.

use crate::episode::{OwnCalls, ask, memory, open_brain, record_compacted, record_said, side_by_side};
use crate::{Kernel, call};
use brain::{Brain, BrainInput, CallResult, HookTurn, Move};
use gate::{CallEnd, StopHook};
use serde_json::Value;
use world::event::{ArtifactKept, HookFailed, HookStarted};
use world::{Event, Fault, Hands, Refusal, Stop, Task, limits};

/// A brain that goes on and on is stopped by the clock; this stops one that makes calls faster than that.
const MOVES_MAX: usize = 1_000;

/// What came of a hook.
enum HookEnd {
    Said(String),
    Failed(String),
    /// It used a tool without asking.
    Ungated(String),
}

/// Asks the brain of a finished task for its artifacts. Gives the tool that it used without asking, if it did.
pub(crate) async fn run(kernel: &Kernel, task: &Task, brain: &mut Box<dyn Brain>) -> Result<Option<String>, Stop> {
    let Some(trusted) = kernel.gate.policies.trusted(task.zone)? else { return Ok(None) };
    for hook in &trusted.config.crew.hooks.on_stop {
        // An episode before this one has it already.
        if kernel.ledger.task(task.id)?.artifacts.contains_key(&hook.artifact) {
            continue;
        }
        let (pid, id, artifact) = (task.pid, Some(task.id), hook.artifact.clone());
        kernel.ledger.record(HookStarted { pid, task: id, artifact: artifact.clone() }).await?;
        let mut own = OwnCalls::default();
        let asked = tokio::time::timeout(trusted.config.hook_timeout(), turn(kernel, task, brain.as_mut(), hook, &mut own)).await;
        let end = match asked {
            Ok(end) => end?,
            Err(_) => {
                // A late word must not be taken for the answer to the next question.
                brain.close().await;
                *brain = open_brain(kernel, &kernel.ledger.task(task.id)?).await?;
                HookEnd::Failed(format!("no answer within {} ms", trusted.config.hook_timeout().as_millis()))
            }
        };
        own.close(kernel).await?;
        kernel.ledger.flush_progress(pid, id).await?;
        let came: Event = match end {
            HookEnd::Said(text) if text.trim().is_empty() => {
                HookFailed { pid, task: id, artifact, reason: "it said nothing".to_owned() }.into()
            }
            HookEnd::Said(text) => kept(kernel, task, artifact, text, &trusted.sanitizer)?,
            HookEnd::Failed(reason) => {
                let reason = kernel.ledger.redactor.text(&reason).into_owned();
                HookFailed { pid, task: id, artifact, reason }.into()
            }
            HookEnd::Ungated(tool) => {
                let reason = format!("it used `{tool}` without asking");
                kernel.ledger.record(HookFailed { pid, task: id, artifact, reason }).await?;
                return Ok(Some(tool));
            }
        };
        if let Event::HookFailed(failed) = &came {
            world::log!("skep: {} has no {}: {}", task.id, failed.artifact, failed.reason);
        }
        kernel.ledger.record(came).await?;
    }
    Ok(None)
}

/// Asks a brain one question in a conversation of its own, in which its task may change nothing. What it says is kept as an artifact.
pub(crate) async fn ask_once(kernel: &Kernel, task: &Task, brain: &str, question: String) -> Result<String, Stop> {
    let trusted = kernel.gate.policies.in_force(task.zone)?;
    let spec = kernel.brains.find(brain, Some(&trusted.config))?;
    let (pid, id) = (task.pid, Some(task.id));
    let artifact = format!("{}{}", brain::script::ANSWER, kernel.ledger.task(task.id)?.artifacts.len() + 1);
    kernel.ledger.record(HookStarted { pid, task: id, artifact: artifact.clone() }).await?;
    let asked = Task { brain: spec.to_string(), memory: Vec::new(), ..kernel.ledger.task(task.id)? };
    let hook = StopHook { artifact: artifact.clone(), prompt: question };
    let mut own = OwnCalls::default();
    let patience = kernel.instance.settings.in_force().brain_patience_time();
    let mut opened = open_brain(kernel, &asked).await?;
    let end = match tokio::time::timeout(patience, turn(kernel, &asked, opened.as_mut(), &hook, &mut own)).await {
        Ok(end) => end?,
        Err(_) => HookEnd::Failed(format!("no answer within {} ms", patience.as_millis())),
    };
    opened.close().await;
    own.close(kernel).await?;
    kernel.ledger.flush_progress(pid, id).await?;
    let said = match end {
        HookEnd::Said(text) if !text.trim().is_empty() => Ok(text),
        HookEnd::Said(_) => Err("it said nothing".to_owned()),
        HookEnd::Failed(reason) => Err(kernel.ledger.redactor.text(&reason).into_owned()),
        HookEnd::Ungated(tool) => Err(format!("it used `{tool}` without asking")),
    };
    match said {
        Ok(text) => {
            kernel.ledger.record(kept(kernel, task, artifact, text.clone(), &trusted.sanitizer)?).await?;
            Ok(text)
        }
        Err(reason) => {
            kernel.ledger.record(HookFailed { pid, task: id, artifact, reason: reason.clone() }).await?;
            Err(Fault::new(world::FaultKind::Brain, "the brain gave no answer", reason).into())
        }
    }
}

/// An artifact as it is recorded: without what acts on a terminal, without secrets, and no longer than it may be.
fn kept(kernel: &Kernel, task: &Task, artifact: String, text: String, sanitizer: &tool::Sanitizer) -> Result<Event, Fault> {
    let mut text = kernel.ledger.redactor.text(text.trim()).into_owned();
    sanitizer.clean_text(&mut text);
    if text.len() > limits::ARTIFACT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(limits::ARTIFACT_BYTES_MAX - TRUNCATED.len()));
        text.push_str(TRUNCATED);
    }
    let bytes = text.len() as u64;
    let mut blob = None;
    if text.len() > limits::ARTIFACT_INLINE_MAX {
        blob = Some(kernel.ledger.keep(text.as_bytes())?);
        text.truncate(text.floor_char_boundary(limits::ARTIFACT_INLINE_MAX));
    }
    Ok(ArtifactKept { pid: task.pid, task: Some(task.id), artifact, text, blob, bytes }.into())
}

const TRUNCATED: &str = "\n[truncated]";

/// One turn: the brain's moves up to its answer.
async fn turn(kernel: &Kernel, task: &Task, brain: &mut dyn Brain, hook: &StopHook, own: &mut OwnCalls) -> Result<HookEnd, Stop> {
    let turn = HookTurn {
        artifact: hook.artifact.clone(),
        prompt: hook.prompt.clone(),
        task: kernel.ledger.prompt(task).await?,
        memory: memory::recall(kernel, &kernel.ledger.task(task.id)?)?,
    };
    let mut input = BrainInput::Hook(turn);
    for _ in 0..MOVES_MAX {
        let next = match brain.next(input).await {
            Ok(next) => next,
            Err(fault) => return Ok(HookEnd::Failed(fault.what)),
        };
        input = match next {
            Move::Done(text) => return Ok(HookEnd::Said(text)),
            Move::Ungated { tool } => {
                call::record_ungated(kernel, task, &tool).await?;
                return Ok(HookEnd::Ungated(tool));
            }
            Move::Wait(review) => return Ok(HookEnd::Failed(format!("it waits for the answer to {review}"))),
            Move::Say(text) => {
                record_said(kernel, task, &text)?;
                BrainInput::Continue
            }
            Move::Compacted => {
                record_compacted(kernel, task).await?;
                BrainInput::Continue
            }
            Move::Report { id, ok, text } => {
                own.report(kernel, id, ok, &text).await?;
                BrainInput::Continue
            }
            Move::Call(calls) => {
                let ends = side_by_side(calls.into_iter().map(|call| ask(kernel, task, call, Hands::Kernel)).collect()).await;
                let ends = ends.into_iter().collect::<Result<Vec<_>, Stop>>()?;
                BrainInput::Results(ends.into_iter().map(|outcome| result_of(outcome.end)).collect())
            }
            Move::Own { id, call } => {
                own.check_free(id)?;
                // Nobody is asked for the sake of an artifact: a question is a no.
                own.ask(kernel, task, id, call).await?.heard
            }
        };
        tokio::task::yield_now().await;
    }
    Ok(HookEnd::Failed(format!("it made {MOVES_MAX} moves and did not answer")))
}

fn result_of(end: CallEnd) -> CallResult {
    match end {
        CallEnd::Done { ok, value } => CallResult::Output { ok, value },
        // Nobody is asked for the sake of an artifact.
        CallEnd::Refused(refusal) | CallEnd::Pending(refusal) => CallResult::Refused(Refusal { review: None, ..refusal }),
        CallEnd::CallerExecutes => CallResult::Output { ok: false, value: Value::Null },
    }
}
