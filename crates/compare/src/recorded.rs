//! What the calls of the original came to. A brain that is replayed hears this and not what its calls come to now: then only the brain's
//! own moves can differ, and what a command prints differently is told once, by the comparison.

use brain::{CallResult, ToolCall};
use gate::Gate;
use std::collections::{HashMap, VecDeque};
use world::event::{CallAdmitted, CallRefused};
use world::{CallId, Event, Refusal, Stop, Task, TaskId};

/// Outcomes by tool and keyed digest of the input, each in the order in which its calls were made.
#[derive(Default)]
pub struct RecordedOutcomes {
    outcomes: HashMap<(String, String), VecDeque<CallResult>>,
}

impl RecordedOutcomes {
    /// The outcomes of the task that this one replays; none for a task that replays nothing.
    pub fn of(gate: &Gate, task: &Task) -> Result<RecordedOutcomes, Stop> {
        task.replays.map_or_else(|| Ok(RecordedOutcomes::default()), |of| read(gate, task, of))
    }

    /// What the recorded call came to, once.
    pub fn take(&mut self, gate: &Gate, call: &ToolCall) -> Option<CallResult> {
        if self.outcomes.is_empty() {
            return None;
        }
        let digest = gate.ledger.journal().vault().digest(call.input.to_string().as_bytes());
        self.outcomes.get_mut(&(call.tool.clone(), digest))?.pop_front()
    }
}

fn read(gate: &Gate, task: &Task, of: TaskId) -> Result<RecordedOutcomes, Stop> {
    let mut recorded = RecordedOutcomes::default();
    let mut open: HashMap<CallId, (String, String)> = HashMap::new();
    // Only its brain's: what a person did in the task is not for the brain to hear.
    let own = gate.ledger.task(of)?.pid;
    for event in gate.ledger.events(of, &["call.admitted", "call.refused", "call.finished"])? {
        match event {
            event if event.pid() != own => {}
            Event::CallAdmitted(CallAdmitted { call, tool, digest, of: None, .. }) => drop(open.insert(call, (tool, digest))),
            Event::CallFinished(end) => {
                let Some((tool, digest)) = open.remove(&end.call) else { continue };
                let value = match &end.blob {
                    // The record has a shortened form; what the brain heard is made again from the whole.
                    Some(blob) => as_heard(gate, task, &tool, &gate.ledger.blob(blob)?)?,
                    None => end.output,
                };
                recorded.outcomes.entry((tool, digest)).or_default().push_back(CallResult::Output { ok: end.ok, value });
            }
            Event::CallRefused(CallRefused { tool, digest, code, reason, hint, remedy, detail, of: None, .. }) => {
                let refusal = Refusal { hint, remedy, detail, ..Refusal::new(code, reason) };
                recorded.outcomes.entry((tool, digest)).or_default().push_back(CallResult::Refused(refusal));
            }
            _ => {}
        }
    }
    Ok(recorded)
}

fn as_heard(gate: &Gate, task: &Task, tool: &str, whole: &[u8]) -> Result<serde_json::Value, Stop> {
    let mut value =
        serde_json::from_slice(whole).map_err(|error| world::Fault::new(world::FaultKind::Bug, "a kept output does not read", error))?;
    if let (Some(tool), Some(trusted)) = (gate.tool(tool).ok(), gate.policies.trusted(task.zone)?) {
        trusted.sanitizer.clean(tool.manifest(), &mut value);
    }
    Ok(value)
}
