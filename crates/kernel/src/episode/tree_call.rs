//! Calls of the process tree by a brain whose calls the kernel makes: what a vendor's client asks for in its room, the built-in brain asks for here.
//!
//! The tree judges and records them itself, each with its effect in one commit, so none is ever lost. **Invariant.** A call whose outcome is on record
//! is told from the record: an episode that is taken up again spawns, sends and stores nothing twice.

use crate::Kernel;
use agent::{call_tree, recall_tree};
use brain::{CallResult, ToolCall};
use serde_json::json;
use tree::TreeCaller;
use world::{Code, FaultKind, Refusal, ReviewId, Stop, Task};

/// Makes a call, or tells what came of it. The review where a person must answer first.
pub(super) async fn make(
    kernel: &Kernel,
    task: &Task,
    call: &ToolCall,
    known: Option<CallResult>,
) -> Result<(Option<CallResult>, Option<ReviewId>), Stop> {
    if task.replays.is_some() {
        let refusal = Refusal::new(Code::WrongState, "a replay directs no agents");
        return Ok((Some(CallResult::Refused(refusal)), None));
    }
    let recorded = match known {
        Some(CallResult::Output { value, .. }) => recall_tree(&kernel.tree, task.pid, &call.tool, &call.input, &value).await,
        refused @ Some(CallResult::Refused(_)) => return Ok((refused, None)),
        None => None,
    };
    let made = match recorded {
        Some(outcome) => outcome,
        None => {
            let caller = TreeCaller { pid: task.pid, asked: Some(call.input.clone().into()) };
            call_tree(&kernel.tree, caller, &call.tool, &call.input).await
        }
    };
    match made {
        Ok(value) => Ok((Some(CallResult::Output { ok: true, value }), None)),
        Err(Stop::Refused(Refusal { code: Code::Pending, review: Some(review), .. })) => Ok((None, Some(review))),
        Err(Stop::Refused(refusal)) => Ok((Some(CallResult::Refused(refusal)), None)),
        // What an agent did or is stops no brain.
        Err(Stop::Failed(fault)) if fault.kind == FaultKind::Brain => {
            Ok((Some(CallResult::Output { ok: false, value: json!({ "error": fault.to_string() }) }), None))
        }
        Err(stop) => Err(stop),
    }
}
