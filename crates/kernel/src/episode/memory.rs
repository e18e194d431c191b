//! What a brain knew when it was stopped, and what came of its calls after that.
//!
//! A brain keeps its thoughts before its calls are made. So when it is taken up again it may want calls whose outcome is on record
//! already: those made after it last kept something. **Invariant.** Such a call gets its recorded outcome and is not made twice; and no
//! call gets an outcome that was another's.

use crate::Kernel;
use brain::{CallResult, Checkpoint, ToolCall};
use journal::Filter;
use ledger::event_of;
use std::collections::HashMap;
use world::Fault;
use world::event::{BrainRemembered, CallAdmitted, CallFinished, CallRefused};
use world::{Event, Task};

/// Outcomes that a brain has not heard of, by tool and keyed digest of the input.
#[derive(Default)]
pub(super) struct Past {
    outcomes: Vec<(String, String, CallResult)>,
}

/// What the brain of a task gave to be kept, oldest first.
pub(crate) fn recall(kernel: &Kernel, task: &Task) -> Result<Vec<Vec<u8>>, Fault> {
    task.memory.iter().map(|blob| kernel.ledger.blob(blob)).collect()
}

/// Keeps what a brain needs to go on, before its next move is carried out.
pub(super) async fn keep(kernel: &Kernel, task: &Task, checkpoint: Checkpoint) -> Result<(), Fault> {
    let blob = kernel.ledger.keep(&checkpoint.bytes)?;
    kernel.ledger.record(BrainRemembered { pid: task.pid, task: Some(task.id), blob, anew: checkpoint.replaces_all }).await
}

impl Past {
    /// Reads back to where the brain last kept something. A brain that keeps nothing has no past here.
    pub fn of(kernel: &Kernel, task: &Task) -> Result<Past, Fault> {
        if task.memory.is_empty() {
            return Ok(Past::default());
        }
        // Only its own: what a person did in the task is not for the brain to know.
        let own = Filter { task: Some(task.id.to_string()), pid: Some(task.pid.0), reverse: true, ..Filter::default() };
        let last = Filter { kinds: vec!["brain.remembered".into()], limit: Some(1), ..own.clone() };
        let after_seq = kernel.ledger.read(&last)?.first().map(|record| record.seq);
        let kinds = ["call.admitted", "call.finished", "call.refused"].map(str::to_owned).to_vec();
        // All of them: one answer may hold more calls than may be open at once, and a model that had to be asked many times leaves more
        // records behind the calls than the calls did.
        let filter = Filter { kinds, after_seq, ..own };
        let mut past = Past::default();
        let mut finished: HashMap<_, CallFinished> = HashMap::new();
        for record in kernel.ledger.read(&filter)? {
            match event_of(&record)? {
                Event::CallFinished(e) => drop(finished.insert(e.call, e)),
                Event::CallAdmitted(CallAdmitted { call, tool, digest, of: None, .. }) => {
                    if let Some(end) = finished.remove(&call) {
                        past.outcomes.push((tool, digest, CallResult::Output { ok: end.ok, value: end.output }));
                    }
                }
                Event::CallRefused(CallRefused { tool, digest, code, reason, hint, remedy, detail, of: None, .. }) => {
                    past.outcomes.push((
                        tool,
                        digest,
                        CallResult::Refused(world::Refusal { hint, remedy, detail, ..world::Refusal::new(code, reason) }),
                    ));
                }
                _ => {}
            }
        }
        Ok(past)
    }

    /// The recorded outcome of a call, once.
    pub fn take(&mut self, kernel: &Kernel, call: &ToolCall) -> Option<CallResult> {
        if self.outcomes.is_empty() {
            return None;
        }
        let digest = kernel.ledger.journal().vault().digest(call.input.to_string().as_bytes());
        // What the tree records has the name of the call that a tool is.
        let name = agent::tree_call(&call.tool).unwrap_or(&call.tool);
        // Newest first, so equal calls are taken from the back, in the order they were made.
        let at = self.outcomes.iter().rposition(|(tool, known, _)| tool == name && *known == digest)?;
        Some(self.outcomes.remove(at).2)
    }

    pub fn forget(&mut self) {
        self.outcomes.clear();
    }
}
