//! The door at which a client's hooks ask while a person talks with it.
//!
//! The client starts this program in its room before and after each of its tools; that passes on what it was told, and writes what is
//! answered here. **Invariant.** A tool is allowed only after its admission is on record. Whoever in the room connects is answered for the
//! task's own process and no other, and gains nothing by a yes that it could not do without.

use crate::CallDoor;
use brain::agent::{AgentAnswer, AgentWire, HookEvent};
use gate::{CallEnd, Request};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use world::{CallId, Fault, Hands, Pid, TaskId, ZoneId, limits};

/// Hooks that are answered at once.
const ABREAST: usize = 16;

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
    open: BTreeMap<String, CallId>,
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

    pub async fn serve(self: Arc<Self>, calls: Arc<dyn CallDoor>, door: TcpListener) {
        let places = Arc::new(Semaphore::new(ABREAST));
        let mut answering = tokio::task::JoinSet::new();
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = door.accept().await else { return };
            let (hook, calls) = (self.clone(), calls.clone());
            answering.spawn(async move {
                // Without an answer the hook program says no.
                drop(hook.answer(calls.as_ref(), stream).await);
                drop(place);
            });
            while answering.try_join_next().is_some() {}
        }
    }

    /// One line in, one line out.
    async fn answer(&self, calls: &dyn CallDoor, stream: TcpStream) -> std::io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut line = Vec::new();
        let most = 2 * limits::INPUT_BYTES_MAX as u64;
        BufReader::new(reader.take(most)).read_until(b'\n', &mut line).await?;
        let Some(answer) = self.respond(calls, &line).await else { return Ok(()) };
        writer.write_all(answer.as_bytes()).await?;
        writer.write_all(b"\n").await
    }

    /// The answer to what a hook was told; none where that cannot be read.
    pub(crate) async fn respond(&self, calls: &dyn CallDoor, line: &[u8]) -> Option<String> {
        let input = serde_json::from_slice(line).ok()?;
        let event = self.wire.lock().hook_event(&input);
        Some(match event {
            HookEvent::Began => {
                self.state.lock().has_begun = true;
                String::new()
            }
            HookEvent::Asked { id, call } => {
                let answer = self.ask(calls, id, call).await;
                let answer = answer.unwrap_or_else(|fault| AgentAnswer::Refused(format!("it could not be decided: {fault}")));
                self.wire.lock().hook_answer(&answer)
            }
            HookEvent::Ended { id, ok, text } => {
                let call = self.state.lock().open.remove(&id);
                match call {
                    Some(call) => drop(calls.report(call, ok, &text).await),
                    None => self.state.lock().has_missed |= ok,
                }
                String::new()
            }
            HookEvent::Other => String::new(),
        })
    }

    async fn ask(&self, calls: &dyn CallDoor, id: String, call: brain::ToolCall) -> Result<AgentAnswer, Fault> {
        let request = Request { hands: Hands::Caller, ..Request::new(self.pid, Some(self.task), self.zone, &call.tool, call.input) };
        let outcome = calls.call(&request).await?;
        Ok(match outcome.end {
            CallEnd::CallerExecutes | CallEnd::Done { .. } => {
                let before = outcome.call.and_then(|call| self.state.lock().open.insert(id, call));
                if let Some(before) = before {
                    calls.report(before, false, "unreported").await?;
                }
                AgentAnswer::Allowed
            }
            CallEnd::Refused(refusal) | CallEnd::Pending(refusal) => {
                let why = refusal.advice().map_or(refusal.reason.clone(), |hint| format!("{} (to fix it: {hint})", refusal.reason));
                AgentAnswer::Refused(why)
            }
        })
    }

    /// Ends what the client did not report on.
    pub async fn close(&self, calls: &dyn CallDoor) -> Result<(), Fault> {
        loop {
            let next = self.state.lock().open.pop_first();
            let Some((_, call)) = next else { return Ok(()) };
            calls.report(call, false, "unreported").await?;
        }
    }
}
