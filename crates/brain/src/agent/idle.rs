//! A program between two tasks of its worker: its streams and its side of the conversation, with nobody who drives it.

use super::lines::LineReader;
use super::supervised::AgentExit;
use super::{AgentAnswer, AgentBoot, AgentEvent, AgentWire, LaunchPlan};
use crate::OwnCallId;
use std::future::Future;
use std::pin::Pin;
use tokio::sync::mpsc;
use world::ReviewId;

/// A program that waits. Whoever drops it has ended its input.
pub struct IdleAgent {
    pub(super) wire: Box<dyn AgentWire>,
    pub(super) send: mpsc::UnboundedSender<String>,
    pub(super) lines: LineReader,
}

/// A program that is taken up for another task.
pub struct AttachedAgent {
    pub agent: IdleAgent,
    /// As in [`super::AgentStreams`].
    pub ended: Pin<Box<dyn Future<Output = AgentExit> + Send>>,
    pub questions: mpsc::UnboundedReceiver<ReviewId>,
}

/// In the place of a wire that has gone to rest with its program.
pub(super) struct NoWire;

impl AgentWire for NoWire {
    fn launch(&mut self, _boot: &AgentBoot) -> LaunchPlan {
        LaunchPlan::default()
    }

    fn hello(&mut self, _boot: &AgentBoot) -> Vec<String> {
        Vec::new()
    }

    fn prompt(&mut self, _text: &str) -> Vec<String> {
        Vec::new()
    }

    fn read(&mut self, _line: &str) -> Vec<AgentEvent> {
        Vec::new()
    }

    fn answer(&mut self, _id: OwnCallId, _answer: &AgentAnswer) -> Vec<AgentEvent> {
        Vec::new()
    }

    fn interrupt(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn is_series(&self, _name: &str) -> bool {
        false
    }
}
