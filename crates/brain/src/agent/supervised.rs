//! Drives a vendor's program over its standard streams, as the brain that the kernel sees.
//!
//! **Invariant.** A turn counts as done only by the program's own last event; an exit without it is a failure, whatever its code. The name
//! of the conversation is kept as soon as it is known, so that a crash goes on with it.

use super::idle::NoWire;
use super::kept::{self, KeptState, KeptTurn, UnreadableCheckpoint};
use super::lines::LineReader;
use super::running::{GREETING_MAX, Heard, HookQuestion, ProgramLinks, RunningProgram};
use super::turn::{ASK, StartOf, TurnNotes};
use super::{AgentAnswer, AgentBoot, AgentEvent, AgentFailure, AgentWire, AttachedAgent, FallbackWire, IdleAgent, LaunchPlan};
use crate::{Brain, BrainFault, BrainInput, Checkpoint, HookTurn, Move, ToolCall};
use serde_json::Value;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use world::{RetryCause, ReviewId};

/// Characters of a program's last error output that a person is shown.
const ERROR_OUTPUT_CHARS: usize = 600;

/// A program that runs.
pub struct AgentStreams {
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Comes back when the program has ended and nothing of it is left.
    pub ended: Pin<Box<dyn Future<Output = AgentExit> + Send>>,
    /// Questions that something in its room asked and that a person must answer before it goes on.
    pub questions: mpsc::UnboundedReceiver<ReviewId>,
    /// What its hook program is told, where the plan has one.
    pub hooks: Option<mpsc::UnboundedReceiver<HookQuestion>>,
}

/// How a program ended, or why it never began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentExit {
    Ended {
        /// What is said of the program: `ended with exit code 2`, `was killed (signal 9)`.
        how: String,
        /// The end of its error output, where that can say why.
        error_output: String,
    },
    Refused {
        reason: String,
        hint: Option<String>,
    },
    /// A person must say whether it may be started.
    Waits(ReviewId),
}

type Started<'a> = Pin<Box<dyn Future<Output = Result<AgentStreams, BrainFault>> + Send + 'a>>;
type Attached<'a> = Pin<Box<dyn Future<Output = Result<Option<AttachedAgent>, AgentExit>> + Send + 'a>>;

/// Starts programs in the task's room.
pub trait AgentLauncher: Send {
    fn start(&mut self, plan: LaunchPlan) -> Started<'_>;

    /// A program of the worker's that waits and can go on with this: started for the same, and in the same conversation. `fresh` is the
    /// plan for a new conversation, which is the same for all of them.
    fn attach<'a>(&'a mut self, _boot: &'a AgentBoot, _fresh: &'a LaunchPlan) -> Attached<'a> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A tool of the program's is about to run.
    fn before_tool(&mut self) {}

    /// Holds the program still, so that it can wait for the next task. False where it must end.
    fn hold(&mut self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(std::future::ready(false))
    }

    /// The state of the files now: of the project, and with what lies over it. And the time, by the clock that stamps them.
    fn files(&mut self) -> KeptState {
        KeptState::default()
    }

    /// Takes the program that is held, with the name of its conversation.
    fn keep(&mut self, _agent: IdleAgent, _series: Option<&str>) {}

    /// Takes down a line as the program wrote it.
    fn keep_line(&mut self, line: &str);
}

/// A vendor's program as a brain.
pub struct Supervised<L> {
    wire: Box<dyn AgentWire>,
    launcher: L,
    boot: AgentBoot,
    running: Option<RunningProgram>,
    moves: VecDeque<Move>,
    failure: Option<AgentFailure>,
    kept: KeptTurn,
    is_kept: bool,
    /// Why it was not taken up again.
    exit: Option<AgentExit>,
    /// What its program was given last, should another protocol have to be tried.
    prompt: String,
    notes: TurnNotes,
    /// Lines that it wrote since its last move.
    lines: u64,
}

impl<L: AgentLauncher> Supervised<L> {
    /// `boot.series` is the conversation that the worker had last, for a task that begins.
    pub fn new(wire: Box<dyn AgentWire>, launcher: L, boot: AgentBoot) -> Supervised<L> {
        let (moves, kept) = (VecDeque::new(), KeptTurn::default());
        Supervised {
            wire,
            launcher,
            boot,
            running: None,
            moves,
            failure: None,
            kept,
            is_kept: true,
            exit: None,
            prompt: String::new(),
            notes: TurnNotes::default(),
            lines: 0,
        }
    }

    /// What it is told of the time since its last turn.
    #[must_use]
    pub fn with_notes(self, notes: TurnNotes) -> Supervised<L> {
        Supervised { notes, ..self }
    }

    /// Starts the program and gives it its turn.
    async fn begin(&mut self, start: StartOf) -> Result<(), BrainFault> {
        self.moves.extend(self.notes.lost.take().map(|lost| Move::Say(lost.notice())));
        let before = start.memory.last().map(|bytes| kept::read(bytes)).transpose();
        let before = before.unwrap_or_else(|unreadable| self.tell_lost(&unreadable));
        let prompt = start.prompt_after(before.as_ref(), &self.notes);
        let prompt = if self.boot.may_change { prompt } else { format!("{ASK} {prompt}") };
        if let Some(before) = before {
            self.boot.series = before.series;
        }
        // A name that could be an option or a path never reaches the argument list.
        self.boot.series = self.boot.series.take().filter(|series| self.wire.is_series(series));
        let base = self.launcher.files().base;
        let (series, heard) = (self.boot.series.clone(), start.further.prompts.len());
        self.kept = KeptTurn { series, heard, open: true, base, ..KeptTurn::default() };
        self.start_program(&prompt).await
    }

    /// Tells that what it kept is of no use, so that nobody wonders about a conversation that begins anew.
    fn tell_lost(&mut self, unreadable: &UnreadableCheckpoint) -> Option<KeptTurn> {
        self.moves.push_back(Move::Say(unreadable.notice()));
        None
    }

    /// Goes on with a program that waits, if there is one.
    async fn attach(&mut self, prompt: &str) -> Result<bool, AgentExit> {
        let fresh = self.wire.launch(&AgentBoot { series: None, ..self.boot.clone() });
        let Some(AttachedAgent { agent, ended, questions }) = self.launcher.attach(&self.boot, &fresh).await? else { return Ok(false) };
        let IdleAgent { wire, send, lines } = agent;
        self.wire = wire;
        self.running = Some(RunningProgram::new(send, lines, ProgramLinks { questions, hooks: None, ended }));
        self.is_kept = false;
        let lines = self.wire.prompt(prompt);
        self.send(lines);
        Ok(true)
    }

    async fn start_program(&mut self, prompt: &str) -> Result<(), BrainFault> {
        prompt.clone_into(&mut self.prompt);
        match self.attach(prompt).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(exit) => {
                self.exit = Some(exit);
                return Ok(());
            }
        }
        self.boot_program(prompt).await
    }

    async fn boot_program(&mut self, prompt: &str) -> Result<(), BrainFault> {
        let plan = self.wire.launch(&self.boot);
        let AgentStreams { input, output, ended, questions, hooks } = self.launcher.start(plan).await?;
        let (send, receive) = mpsc::unbounded_channel();
        // A task of its own, so that a program that does not read never keeps us from reading.
        tokio::spawn(write_all(input, receive));
        self.running = Some(RunningProgram::new(send, LineReader::new(output), ProgramLinks { questions, hooks, ended }));
        let mut lines = self.wire.hello(&self.boot);
        lines.extend(self.wire.prompt(prompt));
        self.send(lines);
        Ok(())
    }

    /// One more turn of the same conversation, by the same program if it still runs.
    async fn ask_for(&mut self, hook: HookTurn) -> Result<(), BrainFault> {
        self.moves.clear();
        if self.wire.ends_with_turn() {
            self.end_program().await;
        }
        if self.running.is_some() {
            let lines = self.wire.prompt(&hook.prompt);
            self.send(lines);
            return Ok(());
        }
        let before = hook.memory.last().map(|bytes| kept::read(bytes)).transpose();
        let before = before.unwrap_or_else(|unreadable| self.tell_lost(&unreadable)).unwrap_or_default();
        self.boot.series = before.series.clone().filter(|series| self.wire.is_series(series));
        self.kept = before;
        self.start_program(&hook.prompt).await
    }

    fn send(&mut self, lines: Vec<String>) {
        if let Some(running) = &self.running {
            // A program that has gone is told by the end of its output.
            lines.into_iter().for_each(|line| drop(running.send.send(line)));
        }
    }

    /// Reads until there is something to do.
    async fn next_move(&mut self) -> Result<Move, BrainFault> {
        loop {
            if let Some(next) = self.moves.pop_front() {
                self.lines = 0;
                return Ok(next);
            }
            if let Some(failure) = self.failure.take() {
                match self.wire.is_greeted() {
                    true => return Err(fault_of(failure)),
                    false => self.fall_back(failure).await?,
                }
                continue;
            }
            if let Some(exit) = self.exit.take() {
                return ended_early(exit);
            }
            let Some(running) = &mut self.running else { return Err(BrainFault::new("its program does not run".to_owned())) };
            match running.hear(self.wire.is_greeted()).await {
                Heard::Review(review) => return Ok(Move::Wait(review)),
                Heard::Hook(HookQuestion { input, reply }) => {
                    running.hooked += 1;
                    let number = running.hooked;
                    running.replies.insert(number, reply);
                    self.wire.read_hook(number, &input).into_iter().for_each(|event| self.take(event));
                }
                Heard::Line(Ok(Some(line))) => {
                    self.launcher.keep_line(&line);
                    self.lines += 1;
                    self.wire.read(&line).into_iter().for_each(|event| self.take(event));
                }
                Heard::Line(Ok(None)) => {
                    if let Some(next) = self.over().await? {
                        return Ok(next);
                    }
                }
                Heard::Line(Err(why)) => {
                    self.running = None;
                    return Err(BrainFault::new(why));
                }
                Heard::Nothing => {
                    let why = format!("it did not answer within {} seconds", GREETING_MAX.as_secs());
                    self.end_program().await;
                    self.fall_back(AgentFailure::new(why).may_retry(RetryCause::Fault)).await?;
                }
            }
        }
    }

    /// Goes on in another protocol of the same program, where there is one.
    async fn fall_back(&mut self, failure: AgentFailure) -> Result<(), BrainFault> {
        match self.wire.fallback() {
            Some(other) => self.use_other(other, &failure.what).await,
            None => Err(fault_of(failure)),
        }
    }

    /// Starts the program in another of its protocols, and tells it: what is gated may be less.
    async fn use_other(&mut self, other: FallbackWire, why: &str) -> Result<(), BrainFault> {
        self.end_program().await;
        self.moves.push_back(Move::Say(format!("({}: {why})", other.describe())));
        self.wire = other.wire;
        let prompt = self.prompt.clone();
        self.boot_program(&prompt).await
    }

    /// Ends a program whose turn is over, or that leads nowhere.
    async fn end_program(&mut self) {
        if let Some(running) = self.running.take() {
            // It reads the end of its input and goes; whoever waits for it ends it if it does not.
            drop((running.send, running.lines, running.hooks, running.replies));
            drop(running.ended.await);
        }
    }

    fn take(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Send(line) => self.send(vec![line]),
            AgentEvent::HookReply { number, text } => {
                let reply = self.running.as_mut().and_then(|running| running.replies.remove(&number));
                // A hook program that has gone needs no answer.
                reply.into_iter().for_each(|reply| drop(reply.send(text.clone())));
            }
            AgentEvent::Series(series) if self.kept.series.as_ref() != Some(&series) && self.wire.is_series(&series) => {
                self.kept.series = Some(series);
                self.is_kept = false;
            }
            AgentEvent::Series(_) | AgentEvent::Progress { .. } => {}
            AgentEvent::Compacted => self.moves.push_back(Move::Compacted),
            AgentEvent::Message(text) => self.moves.push_back(Move::Say(text)),
            AgentEvent::Asked { id, call } => {
                self.launcher.before_tool();
                self.moves.push_back(Move::Own { id, call: within(&self.boot.project, call) });
            }
            AgentEvent::Ended { id, ok, text } => self.moves.push_back(Move::Report { id, ok, text }),
            AgentEvent::Ungated { tool } => {
                let lines = self.wire.interrupt();
                self.send(lines);
                self.moves.push_back(Move::Ungated { tool });
            }
            AgentEvent::Done(summary) => {
                (self.kept.open, self.is_kept) = (false, false);
                self.kept.over_us = self.launcher.files().over_us;
                self.moves.push_back(Move::Done(summary));
            }
            AgentEvent::Failed(failure) => {
                if failure.series_is_gone {
                    let gone = self.kept.series.take().unwrap_or_default();
                    self.is_kept = false;
                    self.moves.push_back(Move::Say(format!("(the conversation {gone} has expired; a new one begins)")));
                }
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// The program ended before its turn did. `None` where it goes on in another protocol.
    async fn over(&mut self) -> Result<Option<Move>, BrainFault> {
        let Some(running) = self.running.take() else { return Err(BrainFault::new("its program does not run".to_owned())) };
        drop(running.send);
        let exit = running.ended.await;
        if let (false, AgentExit::Ended { how, error_output }) = (self.wire.is_greeted(), &exit)
            && let Some(other) = self.wire.fallback()
        {
            self.use_other(other, &ended_words(how, error_output)).await?;
            return Ok(None);
        }
        ended_early(exit).map(Some)
    }
}

/// How a program ended, and what it wrote to its error output last, in one sentence.
fn ended_words(how: &str, error_output: &str) -> String {
    let written = error_output.trim();
    let from = written.char_indices().rev().nth(ERROR_OUTPUT_CHARS - 1).map_or(0, |(at, _)| at);
    let cut = if from > 0 { "…" } else { "" };
    let said = if written.is_empty() { String::new() } else { format!("; its last error output: {cut}{}", &written[from..]) };
    format!("its program {how} before its turn was over{said}")
}

/// What follows from the end of a program whose turn is not over.
fn ended_early(exit: AgentExit) -> Result<Move, BrainFault> {
    match exit {
        AgentExit::Waits(review) => Ok(Move::Wait(review)),
        AgentExit::Refused { reason, hint } => {
            Err(BrainFault { hint, ..BrainFault::new(format!("its program was not started: {reason}")) })
        }
        AgentExit::Ended { how, error_output } => {
            let what = ended_words(&how, &error_output);
            Err(BrainFault { crashed: true, may_retry: Some(RetryCause::Fault), ..BrainFault::new(what) })
        }
    }
}

impl<L: AgentLauncher> Brain for Supervised<L> {
    fn next(&mut self, input: BrainInput) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>> {
        Box::pin(async move {
            match input {
                BrainInput::Start { prompt, resumed, memory, further, .. } => {
                    self.begin(StartOf { prompt, resumed, memory, further }).await?;
                }
                BrainInput::OwnCallAllowed(id) => {
                    let events = self.wire.answer(id, &AgentAnswer::Allowed);
                    events.into_iter().for_each(|event| self.take(event));
                }
                BrainInput::OwnCallRefused { id, reason, hint } => {
                    let why = hint.map_or(reason.clone(), |hint| format!("{reason} (to fix it: {hint})"));
                    let events = self.wire.answer(id, &AgentAnswer::Refused(why));
                    events.into_iter().for_each(|event| self.take(event));
                }
                BrainInput::Hook(hook) => self.ask_for(hook).await?,
                BrainInput::Results(_) | BrainInput::Continue => {}
            }
            self.next_move().await
        })
    }

    fn checkpoint(&mut self) -> Option<Checkpoint> {
        if std::mem::replace(&mut self.is_kept, true) {
            return None;
        }
        let bytes = serde_json::to_vec(&self.kept).ok()?;
        Some(Checkpoint { replaces_all: true, bytes })
    }

    fn rest(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let is_over = self.running.is_some() && !self.kept.open && self.failure.is_none() && self.moves.is_empty();
            if !is_over || self.wire.ends_with_turn() || !self.launcher.hold().await {
                return self.close().await;
            }
            let Some(RunningProgram { send, lines, ended, .. }) = self.running.take() else { return };
            drop(ended.await);
            let wire = std::mem::replace(&mut self.wire, Box::new(NoWire));
            self.launcher.keep(IdleAgent { wire, send, lines }, self.kept.series.as_deref());
        })
    }

    fn close(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.end_program().await;
            if self.kept.open && self.kept.state.is_none() {
                self.kept.state = self.launcher.files().state;
                self.is_kept = false;
            }
        })
    }

    fn activity(&self) -> Option<String> {
        Some(match self.lines {
            0 => "its program wrote nothing meanwhile".to_owned(),
            lines => format!("its program wrote {lines} lines meanwhile, none of which led on"),
        })
    }
}

/// A call with paths as the kernel writes them: those of the project begin in it.
fn within(project: &str, mut call: ToolCall) -> ToolCall {
    for field in ["path", "from", "to", "cwd"] {
        let path = call.input.get(field).and_then(Value::as_str).and_then(|path| path.strip_prefix(project));
        let inside = path.filter(|rest| rest.is_empty() || rest.starts_with('/')).map(|rest| rest.trim_start_matches('/'));
        if let Some(inside) = inside {
            call.input[field] = if inside.is_empty() { ".".into() } else { inside.into() };
        }
    }
    call
}

fn fault_of(failure: AgentFailure) -> BrainFault {
    let AgentFailure { what, hint, may_retry, series_is_gone } = failure;
    BrainFault { what, hint, may_retry, crashed: series_is_gone }
}

async fn write_all(mut to: Box<dyn AsyncWrite + Send + Unpin>, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if to.write_all(line.as_bytes()).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
