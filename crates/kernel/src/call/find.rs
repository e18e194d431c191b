//! Find: the tool that a call names, with an input that fits it, and the call's turn to use it.
//!
//! Decides nothing about rights: what is refused here could never run, whoever asks.

use super::Request;
use crate::Kernel;
use tool::{Lane, Pass, Tool, ToolUnavailable};
use world::{Code, Refusal, limits};

/// What a call is to run.
pub(super) enum Found<'a> {
    /// A tool, and the call's turn to use it.
    Tool(Turn<'a>),
    /// A tool whose work a built-in one does.
    Adapter(&'a Tool),
}

/// A tool that one call may use as soon as the gate admits it. Calls that touch the same paths wait until this is dropped.
pub(super) struct Turn<'a> {
    pub tool: &'a Tool,
    pub breaker: Pass<'a>,
    /// Calls of a task run side by side unless they touch the same paths; then in the order they came, each seeing the one before.
    pub lane: Option<Lane>,
}

/// Finds the tool of a call and waits for its turn.
pub(super) async fn find<'a>(kernel: &'a Kernel, request: &Request) -> Result<Found<'a>, Refusal> {
    if kernel.ledger.is_flooded_by(request.pid) {
        let reason = format!("it made {} records within a minute", limits::RECORDS_BURST_MAX);
        return Err(Refusal::new(Code::Exhausted, reason).hint("wait a minute"));
    }
    let tool = tool(kernel, request)?;
    if tool.is_adapted() {
        return Ok(Found::Adapter(tool));
    }
    let lane = match request.task {
        Some(task) => Some(kernel.lanes(task).enter(tool.touches_by_name(&request.input)).await),
        None => None,
    };
    let breaker = kernel.breakers.enter(&request.tool, kernel.tuning.clock.instant());
    let breaker = breaker.map_err(|refusal| breaker_refusal(kernel, request, refusal))?;
    Ok(Found::Tool(Turn { tool, breaker, lane }))
}

/// The tool a request names, if the input fits it.
pub(super) fn tool<'a>(kernel: &'a Kernel, request: &Request) -> Result<&'a Tool, Refusal> {
    let bytes = request.input.to_string().len();
    if bytes > limits::INPUT_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("the input has {bytes} bytes; {} are allowed", limits::INPUT_BYTES_MAX))
            .hint("write large content in several calls"));
    }
    let tool = kernel.tools.find(&request.tool)?;
    tool.check(&request.input)?;
    // Where it can never go, nobody is asked about.
    if let Some(aim) = tool.aim(&request.input)? {
        kernel.tuning.reach.check(&aim)?;
    }
    Ok(tool)
}

/// A tool that failed too often rests; its caller is told what there is instead.
fn breaker_refusal(kernel: &Kernel, request: &Request, refusal: Refusal) -> Refusal {
    let resting = kernel.breakers.open(kernel.tuning.clock.instant());
    let names = kernel.tools.list().map(|tool| tool.manifest().name.clone());
    let available_tools = names.filter(|name| *name != request.tool && !resting.contains(name)).collect();
    let (tool_name, current_state) = (request.tool.clone(), "resting".to_owned());
    Refusal::from(&ToolUnavailable { tool_name, current_state, reason: refusal.reason, available_tools })
}
