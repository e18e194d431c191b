//! A program that runs: its lines, its hooks, and whoever must be waited for.

use super::lines::LineReader;
use super::supervised::AgentExit;
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use world::ReviewId;

/// A program that has not answered in its protocol by then does not speak it. Even a loaded machine starts one in a tenth of that.
pub(super) const GREETING_MAX: Duration = Duration::from_secs(90);

/// What a program's hook program was given to read, and who waits for its answer. Whoever drops it has said no.
#[derive(Debug)]
pub struct HookQuestion {
    pub input: Value,
    pub reply: oneshot::Sender<String>,
}

pub(super) struct RunningProgram {
    pub send: mpsc::UnboundedSender<String>,
    pub lines: LineReader,
    pub questions: mpsc::UnboundedReceiver<ReviewId>,
    pub hooks: Option<mpsc::UnboundedReceiver<HookQuestion>>,
    /// Hooks that wait for their answer, by the number that the wire has for them.
    pub replies: BTreeMap<u64, oneshot::Sender<String>>,
    pub hooked: u64,
    /// Until when it must have answered in its protocol.
    greets_by: Instant,
    pub ended: Pin<Box<dyn Future<Output = AgentExit> + Send>>,
}

impl RunningProgram {
    pub fn new(send: mpsc::UnboundedSender<String>, lines: LineReader, streams: ProgramLinks) -> RunningProgram {
        let ProgramLinks { questions, hooks, ended } = streams;
        let greets_by = Instant::now() + GREETING_MAX;
        RunningProgram { send, lines, questions, hooks, replies: BTreeMap::new(), hooked: 0, greets_by, ended }
    }

    /// Waits for whatever comes next. `is_greeted` says that it has answered in its protocol.
    pub async fn hear(&mut self, is_greeted: bool) -> Heard {
        let RunningProgram { questions, hooks, lines, greets_by, .. } = self;
        let hook = async {
            match hooks {
                Some(hooks) => hooks.recv().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            Some(review) = questions.recv() => Heard::Review(review),
            Some(question) = hook => Heard::Hook(question),
            line = lines.next() => Heard::Line(line),
            () = tokio::time::sleep_until(*greets_by), if !is_greeted => Heard::Nothing,
        }
    }
}

/// What goes with a program beside its streams.
pub(super) struct ProgramLinks {
    pub questions: mpsc::UnboundedReceiver<ReviewId>,
    pub hooks: Option<mpsc::UnboundedReceiver<HookQuestion>>,
    pub ended: Pin<Box<dyn Future<Output = AgentExit> + Send>>,
}

pub(super) enum Heard {
    Review(ReviewId),
    Hook(HookQuestion),
    Line(Result<Option<String>, String>),
    /// It does not answer in its protocol.
    Nothing,
}
