//! A session that goes on from the end of a step of another one, with its workspace as it was there.
//!
//! **Invariant.** A fork changes nothing of the session that it comes from. What its records say of the past is what that session's say, up to that step; what held a secret is not
//! among it.

use crate::file_thread::on_own_thread;
use crate::keep::KeptList;
use crate::{Added, Kernel};
use journal::Filter;
use ledger::event_of;
use serde_json::Value;
use session::{ForkStart, NewSession, Reexecution, writers};
use std::collections::BTreeSet;
use workspace::increment::{Increment, IncrementStore};
use world::event::{StepFinished, WorkKept};
use world::{ActivePlan, Code, Event, Fault, FaultKind, ForkPoint, Pid, Refusal, StepIncrement, StepStatus, Stop, Task, TaskId};

/// What a fork takes over of a session's records.
const PAST: [&str; 13] = [
    "planner.requested",
    "plan.received",
    "plan.criticized",
    "plan.rejected",
    "plan.accepted",
    "plan.replaced",
    "step.started",
    "step.finished",
    "session.checkpointed",
    "context.assessed",
    "context.summarized",
    "futility.detected",
    "lesson.recalled",
];
/// Bytes that are kept of one session's workspace, so that it can be forked.
const INCREMENT_BYTES_MAX: u64 = 256 * 1024 * 1024;

impl Kernel {
    /// Keeps what a session's workspace holds now, beside what was kept before.
    pub(crate) async fn keep_increment(&self, task: TaskId, only: Option<Vec<String>>) -> Result<StepIncrement, Stop> {
        let opened = self.workspace_of(task).await?;
        let _keeps = self.blobs.hold().await;
        let sight = self.gate.sight(self.gate.owner(task)?)?;
        let keeper = self.increments.lock().entry(task).or_default().clone();
        let mut keeper = keeper.lock().await;
        if !keeper.is_informed {
            // What a kernel before this one kept may be gone from the workspace by now, and that is news too.
            for event in self.ledger.events(task, &["step.finished"])? {
                let Event::StepFinished(StepFinished { kept: Some(kept), .. }) = event else { continue };
                if let Some(bytes) = self.ledger.blob_if_kept(&kept.blob)? {
                    keeper.remember(&Increment::parse(&bytes)?);
                }
            }
            keeper.is_informed = true;
        }
        let batch = self.ledger.keeping();
        let increment = {
            let keeping = IncrementStore {
                room: &opened.room,
                project: &opened.project,
                upper: &opened.work.join("upper"),
                masked: &|path: &str| sight.masks(path).is_some(),
                bytes_max: INCREMENT_BYTES_MAX,
                keep: &|bytes: &[u8]| batch.keep(bytes),
            };
            keeper.take(&keeping, only.as_deref()).await?
        };
        let (blob, files, bytes, left) =
            (batch.keep(&increment.to_bytes()?)?, increment.paths.len() as u64, increment.bytes(), increment.left.len() as u64);
        batch.done()?;
        Ok(StepIncrement { blob, files, bytes, left })
    }

    /// Executes a session again on its record. No tool runs and no model is asked.
    pub async fn reexecute_session(&self, id: TaskId) -> Result<Reexecution, Stop> {
        let gone = || Fault::new(FaultKind::Stopping, "the kernel is stopping", "its last user has gone");
        let host = self.me.upgrade().ok_or_else(gone)?;
        workspace::aside(|| session::reexecute(host, id))
    }

    /// Begins a session that goes on from the end of a step of this one: `at` is the step's id, `PLAN/STEP`, or the number of a record.
    pub async fn fork_session(&self, of: TaskId, at: &str) -> Result<Added, Stop> {
        let task = self.ledger.task(of)?;
        let Some(session) = task.session.as_deref().cloned() else {
            return Err(Refusal::new(Code::WrongState, format!("{of} is no session")).into());
        };
        let past = self.past_of(&task, at)?;
        let increment = past.increment(self)?;
        let path = self.ledger.project_of(task.zone)?;
        let kept = match increment {
            Some(increment) if !increment.left.is_empty() => {
                let reason = format!("what {of} had written there was not kept whole: {}", increment.left.join("; "));
                return Err(Refusal::new(Code::WrongState, reason).hint("fork it from an earlier step").into());
            }
            Some(increment) => {
                let project = path.clone();
                on_own_thread(self, |kernel| async move { laid_over(&kernel, increment, &project) }).await?
            }
            None => None,
        };
        let created = self.ledger.events(of, &["session.created"])?.into_iter().next();
        let is_exact = !matches!(created, Some(Event::SessionCreated(created)) if created.original.is_some());
        let start = ForkStart { point: ForkPoint { of, seq: past.seq }, events: past.events, brain: task.brain.clone(), is_exact, kept };
        let text = self.ledger.prompt(&task).await?;
        let new = NewSession {
            tags: task.tags.clone(),
            budget: task.budget.clone(),
            fork: Some(Box::new(start)),
            ..NewSession::new(path, text, session.terms)
        };
        self.add_session(new).await
    }

    /// What happened to a session up to the end of a step at which no writer ran.
    fn past_of(&self, task: &Task, at: &str) -> Result<Past, Stop> {
        let filter = Filter { task: Some(task.id.to_string()), kinds: PAST.map(str::to_owned).to_vec(), ..Filter::default() };
        let records = self.ledger.read(&filter)?;
        let mut events = Vec::with_capacity(records.len());
        for record in &records {
            events.push((record.seq, event_of(record)?));
        }
        let end = events.iter().rposition(|(seq, event)| matches!(event, Event::StepFinished(end) if is_meant(end, *seq, at)));
        let Some(end) = end else {
            let reason = format!("no step of {} has ended that is meant by `{at}`", task.id);
            return Err(Refusal::new(Code::NotFound, reason).hint("name a step, `PLAN/STEP`, or the record of a step's end").into());
        };
        let seq = events[end].0;
        // What ended with it in the same moment is of the same moment.
        let end =
            events[end..].iter().position(|(_, event)| !matches!(event, Event::StepFinished(_))).map_or(events.len(), |more| end + more);
        events.truncate(end);
        if let Some(step) = self.running_writer(&events)? {
            let reason = format!("what step {step} writes was not whole or not kept when that step ended");
            return Err(Refusal::new(Code::WrongState, reason).hint("fork it from a step at whose end nothing was being written").into());
        }
        Ok(Past { seq, events: events.into_iter().map(|(_, event)| event).collect() })
    }

    /// A step of the plan then in force that was writing, or that wrote something which was not kept.
    fn running_writer(&self, events: &[(u64, Event)]) -> Result<Option<String>, Stop> {
        let accepted =
            events.iter().rev().find_map(|(_, event)| if let Event::PlanAccepted(accepted) = event { Some(accepted) } else { None });
        let Some(accepted) = accepted else { return Ok(None) };
        let text = String::from_utf8_lossy(&self.ledger.blob(&accepted.blob)?).into_owned();
        let writers = writers(&text, &self.tools.registry);
        let writes = |step: &String| writers.as_ref().is_none_or(|writers| writers.contains(step));
        let mut open = BTreeSet::new();
        for (_, event) in events {
            match event {
                Event::StepStarted(begun) if begun.plan == accepted.plan && writes(&begun.step) => drop(open.insert(begun.step.clone())),
                // Kept with the last that wrote is what all before it wrote.
                Event::StepFinished(end) if end.plan == accepted.plan && end.kept.is_some() => open.clear(),
                Event::StepFinished(end) if end.plan == accepted.plan && end.call.is_none() => drop(open.remove(&end.step)),
                _ => {}
            }
        }
        Ok(open.pop_first())
    }
}

fn is_meant(end: &StepFinished, seq: u64, at: &str) -> bool {
    let is_named = match at.split_once('/') {
        Some((plan, step)) => end.step == step && plan.parse() == Ok(end.plan),
        None => end.step == at || at.parse() == Ok(seq),
    };
    is_named && end.status != StepStatus::Skipped
}

/// A session up to a moment.
struct Past {
    seq: u64,
    events: Vec<Event>,
}

impl Past {
    /// All that was kept of its workspace until then.
    fn increment(&self, kernel: &Kernel) -> Result<Option<Increment>, Stop> {
        let mut all: Option<Increment> = None;
        for event in &self.events {
            let Event::StepFinished(StepFinished { kept: Some(kept), .. }) = event else { continue };
            let Some(bytes) = kernel.ledger.blob_if_kept(&kept.blob)? else {
                return Err(Refusal::new(Code::NotFound, "what it had written there is kept no longer").into());
            };
            all.get_or_insert_default().add(Increment::parse(&bytes)?);
        }
        Ok(all)
    }
}

/// What was written, laid over the project as it is now.
fn laid_over(kernel: &Kernel, increment: Increment, project: &std::path::Path) -> Result<Option<StepIncrement>, Stop> {
    let keeping = kernel.ledger.keeping();
    let changes = increment.over(project, &|bytes| keeping.keep(bytes))?;
    keeping.done()?;
    if changes.is_empty() {
        return Ok(None);
    }
    let KeptList { blob, changes } = KeptList::store(kernel, changes)?;
    Ok(Some(StepIncrement { blob, files: changes.files(), bytes: changes.bytes(), left: 0 }))
}

/// The records of a fork's past, as its own: by its process, of its task.
pub(crate) fn as_own(start: &ForkStart, pid: Pid, task: TaskId) -> Result<Vec<Event>, Fault> {
    let broken = |error: serde_json::Error| Fault::new(FaultKind::Bug, "a record cannot be taken over", error);
    let own = |event: &Event| -> Result<Event, Fault> {
        let mut fields: Value = serde_json::from_str(event.payload().map_err(broken)?.get()).map_err(broken)?;
        fields["pid"] = serde_json::to_value(pid).map_err(broken)?;
        fields["task"] = serde_json::to_value(task).map_err(broken)?;
        // What is kept exactly is kept for the session that it is of.
        if let Some(original) = fields.get_mut("original") {
            *original = Value::String(ActivePlan::GONE.to_owned());
        }
        Event::parse(event.kind(), &fields.to_string()).map_err(broken)
    };
    let mut events = start.events.iter().map(own).collect::<Result<Vec<Event>, Fault>>()?;
    if let Some(StepIncrement { blob, files, bytes, left }) = start.kept.clone() {
        events.push(WorkKept { pid, task: Some(task), blob, files, bytes, left }.into());
    }
    Ok(events)
}
