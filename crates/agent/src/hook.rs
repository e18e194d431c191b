//! The door at which a client's hooks ask: while a person talks with it, or where its protocol has no question of its own.
//!
//! The client starts this program in its room before and after each of its tools; that passes on what it was told, and writes what is
//! answered here. **Invariant.** A tool is allowed only after its admission is on record. Whoever in the room connects is answered for the
//! task's own process and no other, and gains nothing by a yes that it could not do without.

use crate::{CallDoor, DoorFuture};
use brain::agent::{AgentAnswer, AgentWire, HookEvent, HookQuestion};
use gate::{CallEnd, Request};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use world::{CallId, Fault, Hands, Pid, TaskId, ZoneId, limits};

/// Hooks that are answered at once.
const ABREAST: usize = 16;

/// Who answers at the door.
pub trait HookResponder: Send + Sync {
    /// The answer to what a hook was told; none where that cannot be read, which the hook program takes for a no.
    fn respond<'a>(&'a self, calls: &'a dyn CallDoor, line: &'a [u8]) -> DoorFuture<'a, Option<String>>;
}

/// Answers hooks until the door is closed.
pub async fn serve_hooks(responder: Arc<dyn HookResponder>, calls: Arc<dyn CallDoor>, door: TcpListener) {
    let places = Arc::new(Semaphore::new(ABREAST));
    let mut answering = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = door.accept().await else { return };
        let (responder, calls) = (responder.clone(), calls.clone());
        answering.spawn(async move {
            // Without an answer the hook program says no.
            drop(answer(responder.as_ref(), calls.as_ref(), stream).await);
            drop(place);
        });
        while answering.try_join_next().is_some() {}
    }
}

/// One line in, one line out.
async fn answer(responder: &dyn HookResponder, calls: &dyn CallDoor, stream: TcpStream) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = Vec::new();
    let most = 2 * limits::INPUT_BYTES_MAX as u64;
    BufReader::new(reader.take(most)).read_until(b'\n', &mut line).await?;
    let Some(answer) = responder.respond(calls, &line).await else { return Ok(()) };
    writer.write_all(answer.as_bytes()).await?;
    writer.write_all(b"\n").await
}

/// Passes what a task's client tells its hooks on to the brain that drives it, whose questions pass the door as all its others do.
pub struct TaskHook(mpsc::UnboundedSender<HookQuestion>);

impl TaskHook {
    /// With the end at which the brain hears of it.
    pub fn new() -> (TaskHook, mpsc::UnboundedReceiver<HookQuestion>) {
        let (send, receive) = mpsc::unbounded_channel();
        (TaskHook(send), receive)
    }

    /// Is there a brain at the other end?
    pub fn is_heard(&self) -> bool {
        !self.0.is_closed()
    }
}

impl HookResponder for TaskHook {
    fn respond<'a>(&'a self, _calls: &'a dyn CallDoor, line: &'a [u8]) -> DoorFuture<'a, Option<String>> {
        Box::pin(async move {
            let input = serde_json::from_slice(line).ok()?;
            let (reply, replied) = oneshot::channel();
            self.0.send(HookQuestion { input, reply }).ok()?;
            replied.await.ok()
        })
    }
}

pub struct TalkHook {
    pid: Pid,
    task: TaskId,
    zone: ZoneId,
    wire: Mutex<Box<dyn AgentWire>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Tools that were allowed and have not ended, by the client's own names.
    open: BTreeMap<String, Vec<CallId>>,
    /// The conversation in which something was said last.
    series: Option<String>,
    /// A hook was run: they work.
    has_begun: bool,
    /// A tool ended that was never asked about.
    has_missed: bool,
}

impl TalkHook {
    /// For the client of this process, at work on this task.
    pub fn new(pid: Pid, task: TaskId, zone: ZoneId, wire: Box<dyn AgentWire>) -> TalkHook {
        TalkHook { pid, task, zone, wire: Mutex::new(wire), state: Mutex::default() }
    }

    /// Did every tool that is known of ask first?
    pub fn is_gated(&self) -> bool {
        let state = self.state.lock();
        state.has_begun && !state.has_missed
    }

    pub(crate) async fn answer(&self, calls: &dyn CallDoor, line: &[u8]) -> Option<String> {
        let input = serde_json::from_slice(line).ok()?;
        let event = self.wire.lock().hook_event(&input);
        Some(match event {
            HookEvent::Began => {
                self.state.lock().has_begun = true;
                String::new()
            }
            HookEvent::Prompted { series } => {
                if self.wire.lock().is_series(&series) {
                    self.state.lock().series = Some(series);
                }
                String::new()
            }
            HookEvent::Asked { id, calls: asked } => {
                let answer = self.ask(calls, id, asked).await;
                let answer = answer.unwrap_or_else(|fault| AgentAnswer::Refused(format!("it could not be decided: {fault}")));
                self.wire.lock().hook_answer(&answer)
            }
            HookEvent::Ended { id, ok, text } => {
                let ended = self.state.lock().open.remove(&id);
                match ended {
                    Some(ended) => {
                        for call in ended {
                            drop(calls.report(call, ok, &text).await);
                        }
                    }
                    None => self.state.lock().has_missed |= ok,
                }
                String::new()
            }
            HookEvent::Other => String::new(),
        })
    }

    /// The conversation that the client had last, by its own word.
    pub fn series(&self) -> Option<String> {
        self.state.lock().series.clone()
    }

    /// Asks about each call of one use, one after the other; one no refuses all of it.
    async fn ask(&self, calls: &dyn CallDoor, id: String, asked: Vec<brain::ToolCall>) -> Result<AgentAnswer, Fault> {
        let mut admitted = Vec::new();
        for call in asked {
            let request = Request { hands: Hands::Caller, ..Request::new(self.pid, Some(self.task), self.zone, &call.tool, call.input) };
            let outcome = calls.call(&request).await?;
            match outcome.end {
                CallEnd::CallerExecutes | CallEnd::Done { .. } => admitted.extend(outcome.call),
                CallEnd::Refused(refusal) | CallEnd::Pending(refusal) => {
                    for call in admitted {
                        calls.report(call, false, "not done: another part of the same use was refused").await?;
                    }
                    let why = refusal.advice().map_or(refusal.reason.clone(), |hint| format!("{} (to fix it: {hint})", refusal.reason));
                    return Ok(AgentAnswer::Refused(why));
                }
            }
        }
        let before = self.state.lock().open.insert(id, admitted);
        for call in before.into_iter().flatten() {
            calls.report(call, false, "unreported").await?;
        }
        Ok(AgentAnswer::Allowed)
    }

    /// Ends what the client did not report on.
    pub async fn close(&self, calls: &dyn CallDoor) -> Result<(), Fault> {
        loop {
            let next = self.state.lock().open.pop_first();
            let Some((_, left)) = next else { return Ok(()) };
            for call in left {
                calls.report(call, false, "unreported").await?;
            }
        }
    }
}

impl HookResponder for TalkHook {
    fn respond<'a>(&'a self, calls: &'a dyn CallDoor, line: &'a [u8]) -> DoorFuture<'a, Option<String>> {
        Box::pin(self.answer(calls, line))
    }
}
