//! Find: the tool that a call names, with an input that fits it, and the call's turn to use it.
//!
//! Decides nothing about rights: what is refused here could never run, whoever asks.

use crate::Kernel;
use gate::Request;
use tool::{BreakerGuard, PathLock, RegisteredTool};
use world::Refusal;

/// What a call is to run.
pub(super) enum Found<'a> {
    /// A tool, and the call's turn to use it.
    Tool(ReadyTool<'a>),
    /// A tool whose work a built-in one does.
    Adapter(&'a RegisteredTool),
}

/// A tool that one call may use as soon as the gate admits it. Calls that touch the same paths wait until this is dropped.
pub(super) struct ReadyTool<'a> {
    pub tool: &'a RegisteredTool,
    pub breaker: BreakerGuard<'a>,
    /// Calls of a task run side by side unless they touch the same paths; then in the order they came, each seeing the one before.
    pub lock: Option<PathLock>,
}

/// Finds the tool of a call and waits for its turn.
pub(super) async fn find<'a>(kernel: &'a Kernel, request: &Request) -> Result<Found<'a>, Refusal> {
    if let Some(refusal) = kernel.ledger.flood_refusal(request.pid) {
        return Err(refusal);
    }
    let tool = kernel.tools.find(request)?;
    if tool.is_adapted() {
        return Ok(Found::Adapter(tool));
    }
    let lock = match request.task {
        Some(task) => Some(kernel.workspaces.path_locks(task).enter(tool.touches_by_name(&request.input)).await),
        None => None,
    };
    let breaker = kernel.tools.enter(&request.tool)?;
    Ok(Found::Tool(ReadyTool { tool, breaker, lock }))
}
