//! For tests of wires: plays frames that real programs wrote, and sorts what comes of them.

use super::{AgentAnswer, AgentBoot, AgentEvent, AgentWire};
use crate::ToolCall;
use serde_json::Value;
use std::collections::VecDeque;

/// A wire that was started and has its prompt, which waits until there is a conversation.
pub(super) fn started<W: AgentWire>(mut wire: W, series: Option<&str>) -> W {
    let boot = AgentBoot { project: "/p".into(), series: series.map(str::to_owned), brief: "be kind".into(), ..AgentBoot::default() };
    wire.launch(&boot);
    wire.hello(&boot);
    assert_eq!(wire.prompt("Please write the greeting"), Vec::<String>::new(), "there is no conversation yet");
    wire
}

/// Plays frames and answers every question alike; what came of them, without progress.
pub(super) fn play(wire: &mut dyn AgentWire, frames: &str, answer: &AgentAnswer) -> Vec<AgentEvent> {
    let mut seen = Vec::new();
    for line in frames.lines() {
        let mut events = VecDeque::from(wire.read(line));
        while let Some(event) = events.pop_front() {
            if let AgentEvent::Asked { id, .. } = &event {
                events.extend(wire.answer(*id, answer));
            }
            seen.push(event);
        }
    }
    seen.retain(|event| !matches!(event, AgentEvent::Progress { .. }));
    seen
}

pub(super) fn sent(events: &[AgentEvent]) -> Vec<Value> {
    let lines = events.iter().filter_map(|event| match event {
        AgentEvent::Send(line) => Some(serde_json::from_str(line).unwrap()),
        _ => None,
    });
    lines.collect()
}

pub(super) fn asked(events: &[AgentEvent]) -> Vec<ToolCall> {
    let calls = events.iter().filter_map(|event| match event {
        AgentEvent::Asked { call, .. } => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

pub(super) fn call(tool: &str, input: Value) -> ToolCall {
    ToolCall { tool: tool.into(), input }
}
