//! The built-in brain: a loop around a model, with no vendor's program between.
//!
//! It asks, says what it hears as it comes, and turns what the model wants into moves; several calls of one answer are one move.
//! **Invariant.** Whatever it needs to go on after a crash is in what it gives to be kept, before any call of that answer is made.

mod chat;
mod context;
mod gemini;
mod messages;
mod prompt;
mod responses;
mod sse;
mod talk;
mod turn;

use crate::model::{Answer, Model, ModelFault, Purpose, Then};
use crate::{Brain, BrainFault, Brief, Ended, Heard, Keep, Move, Wish};
use context::{ANSWER_TOKENS, Conversation, SUMMARY_TOKENS, fit_tools};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use talk::complaint;
use talk::{Garbled, Reader, Reply, Stop, Wanted};
use turn::{By, Part, Turn, tokens};

/// How often a request is made again before the brain gives up.
const TRIES_MAX: u32 = 6;
/// The first wait; each next one is twice as long, and all vary by half.
const WAIT: Duration = Duration::from_millis(500);
/// The longest wait, in first ones.
const WAITS_MAX: u32 = 60;
/// How often a model that stops in the middle or says nothing is asked to go on.
const NUDGES_MAX: u32 = 3;
/// Text is passed on in lines, or in pieces of this size.
const SAY_BYTES: usize = 400;
/// Bytes of an error's body that are read.
const COMPLAINT_MAX: usize = 64 * 1024;

pub struct Native {
    model: Arc<dyn Model>,
    brief: Brief,
    talk: Conversation,
    /// The answer that is being read.
    stream: Option<Stream>,
    /// Text that is on its way out.
    saying: String,
    /// What comes after it.
    then: Option<Move>,
    tries: u32,
    nudges: u32,
    wait: Duration,
}

struct Stream {
    answer: Answer,
    reader: Reader,
    /// Our estimate of the request, to learn from the vendor's figure.
    estimated: u64,
}

impl Native {
    pub fn new(model: Arc<dyn Model>, brief: Brief) -> Native {
        Native {
            model,
            brief,
            talk: Conversation::default(),
            stream: None,
            saying: String::new(),
            then: None,
            tries: 0,
            nudges: 0,
            wait: WAIT,
        }
    }

    /// Sets how long to wait before the first try after a failed one.
    pub fn wait_first(mut self, wait: Duration) -> Native {
        self.wait = wait;
        self
    }

    /// Takes in what came of the last move. Calls that were wanted and have no outcome yet are wanted again.
    fn hear(&mut self, heard: Heard) -> Result<Option<Move>, BrainFault> {
        match heard {
            Heard::Start { prompt, memory, .. } => {
                self.talk = Conversation::new(prompt, self.brief.pins.clone());
                self.talk.recall(&memory).map_err(|error| BrainFault::new(format!("its memory does not read: {error}")))?;
                let open = self.talk.open_calls();
                if !open.is_empty() {
                    return Ok(Some(wishes(open)));
                }
                // It had finished, and the word did not get out.
                if let Some(turn) = self.talk.turns.last().filter(|turn| turn.by == By::Brain) {
                    return Ok(Some(Move::Done(turn.text())));
                }
            }
            Heard::Ended(ends) => {
                let open = self.talk.open_calls();
                let parts = open.into_iter().zip(ends).map(|((id, tool, _), end)| result(id, tool, end)).collect();
                self.talk.turns.push(Turn { by: By::User, parts });
            }
            Heard::Leave | Heard::Refused { .. } | Heard::Silence => {}
        }
        Ok(self.then.take())
    }

    async fn go_on(&mut self) -> Result<Move, BrainFault> {
        loop {
            if self.stream.is_none() {
                match self.open().await {
                    Ok(stream) => self.stream = Some(stream),
                    Err(fault) => match self.bear(fault).await? {
                        Some(wait) => return Ok(wait),
                        None => continue,
                    },
                }
            }
            match self.read().await {
                Ok(Some(next)) => return Ok(next),
                Ok(None) => {}
                Err(fault) => {
                    self.stream = None;
                    self.saying.clear();
                    if let Some(wait) = self.bear(fault).await? {
                        return Ok(wait);
                    }
                }
            }
        }
    }

    /// Sends the conversation, shortened where it has grown too long.
    async fn open(&mut self) -> Result<Stream, ModelFault> {
        let card = self.model.card(Purpose::Work);
        let system = prompt::system(&self.brief);
        let (tools, tool_tokens) = fit_tools(&self.brief.tools);
        let opening = Turn::user(self.talk.task.clone()).tokens();
        let answer_tokens = card.output_tokens_max.min(ANSWER_TOKENS.max(card.context_tokens / 8));
        let fixed = tokens(&system) + tool_tokens + opening + SUMMARY_TOKENS + answer_tokens;
        let share = card.context_tokens.saturating_sub(fixed);
        if let Some(at) = self.talk.overfull(share) {
            let summary = sum_up(&*self.model, self.talk.told(at)).await?;
            self.talk.shorten(at, summary);
        }
        self.talk.squeeze(share);
        let turns = self.talk.shown();
        let estimated = fixed - SUMMARY_TOKENS - answer_tokens + turns.iter().skip(1).map(Turn::tokens).sum::<u64>();
        let wanted = Wanted { card: &card, system: &system, tools: &tools, turns: &turns, output_tokens: answer_tokens };
        let answer = send(&*self.model, Purpose::Work, &wanted).await?;
        Ok(Stream { answer, reader: Reader::new(card.speech), estimated })
    }

    /// Reads on, up to the next thing to say or to do.
    async fn read(&mut self) -> Result<Option<Move>, ModelFault> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        match stream.answer.body.piece().await? {
            Some(piece) => {
                self.saying.push_str(&stream.reader.feed(&piece).map_err(unreadable)?);
                Ok(self.spoken().map(Move::Say))
            }
            None => {
                let Some(Stream { reader, estimated, .. }) = self.stream.take() else { return Ok(None) };
                let (said, reply) = reader.finish().map_err(unreadable)?;
                self.saying.push_str(&said);
                self.talk.calibrate(reply.input_tokens.unwrap_or(0), estimated);
                let next = self.take(reply)?;
                let rest = std::mem::take(&mut self.saying);
                if rest.trim().is_empty() {
                    return Ok(next);
                }
                self.then = next;
                Ok(Some(Move::Say(rest.trim_end().to_owned())))
            }
        }
    }

    /// A whole line of what is being said, or a long piece of one.
    fn spoken(&mut self) -> Option<String> {
        let end = match self.saying.rfind('\n') {
            Some(end) => end + 1,
            None if self.saying.len() > SAY_BYTES => self.saying.rfind(' ')? + 1,
            None => return None,
        };
        let rest = self.saying.split_off(end);
        let said = std::mem::replace(&mut self.saying, rest);
        let said = said.trim_end();
        (!said.is_empty()).then(|| said.to_owned())
    }

    /// What a whole answer means. `None` when the model is to go on.
    fn take(&mut self, reply: Reply) -> Result<Option<Move>, ModelFault> {
        self.tries = 0;
        let mut turn = Turn { by: By::Brain, parts: reply.parts };
        self.name_calls(&mut turn);
        let said = turn.text();
        if let Stop::Withheld(why) = reply.stop {
            let hint = Some("word the task differently, or use another model".to_owned());
            return Err(ModelFault { what: format!("the model would not answer: {why}"), then: Then::Stop, hint });
        }
        let cut = reply.stop == Stop::Length;
        if cut {
            // The last call of an answer that was cut may be half a call.
            turn.parts.retain(|part| !matches!(part, Part::Call { .. }));
        }
        let calls = turn.calls().count();
        if calls == 0 && (cut || said.trim().is_empty()) {
            self.nudges += 1;
            if self.nudges > NUDGES_MAX {
                let what = if cut { "the model's answers are cut off each time" } else { "the model says nothing" };
                return Err(ModelFault { what: what.into(), then: Then::Stop, hint: None });
            }
            if turn.parts.is_empty() {
                turn.parts.push(Part::Text("…".into()));
            }
            let nudge = if cut { "You were cut off. Go on, in smaller steps." } else { "Go on; or say what you did, if you are finished." };
            self.talk.turns.extend([turn, Turn::user(nudge)]);
            return Ok(None);
        }
        self.nudges = 0;
        self.talk.turns.push(turn);
        Ok(Some(if calls == 0 { Move::Done(said) } else { wishes(self.talk.open_calls()) }))
    }

    /// Gives calls the names that the kernel knows, and ids of their own where the vendor gave none.
    fn name_calls(&self, turn: &mut Turn) {
        let at = self.talk.turns.len();
        for (n, part) in turn.parts.iter_mut().enumerate() {
            if let Part::Call { id, tool, .. } = part {
                if id.is_empty() {
                    *id = format!("call_{at}_{n}");
                }
                if let Some(card) = self.brief.tools.iter().find(|card| talk::name_for(&card.name) == *tool) {
                    tool.clone_from(&card.name);
                }
            }
        }
    }

    /// Waits before another try, or gives up. `Some` where the whole task must wait.
    async fn bear(&mut self, fault: ModelFault) -> Result<Option<Move>, BrainFault> {
        match fault.then {
            Then::Later => Ok(Some(Move::Say(format!("waiting: {}", fault.what)))),
            Then::Wait(review) => Ok(Some(Move::Wait(review))),
            Then::Again if self.tries < TRIES_MAX => {
                let wait = self.wait * (1 << self.tries).min(WAITS_MAX);
                self.tries += 1;
                // Brains that failed together must not come back together.
                let jitter = RandomState::new().hash_one(self.tries) % 1000;
                tokio::time::sleep(wait / 2 + wait * jitter as u32 / 1000).await;
                Ok(None)
            }
            Then::Again => Err(BrainFault { what: format!("{}, {} times in a row", fault.what, self.tries + 1), hint: fault.hint }),
            Then::Stop => Err(BrainFault { what: fault.what, hint: fault.hint }),
        }
    }
}

impl Brain for Native {
    fn next(&mut self, heard: Heard) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>> {
        Box::pin(async move {
            match self.hear(heard)? {
                Some(next) => Ok(next),
                None => self.go_on().await,
            }
        })
    }

    fn keep(&mut self) -> Option<Keep> {
        self.talk.keep().map(|(anew, bytes)| Keep { anew, bytes })
    }
}

/// Sends a request. Anything but a yes is a fault, with what the server said about it.
async fn send(model: &dyn Model, purpose: Purpose, wanted: &Wanted<'_>) -> Result<Answer, ModelFault> {
    let (path, body) = talk::request(wanted);
    let mut answer = model.ask(purpose, path, body).await?;
    if answer.status == 200 {
        return Ok(answer);
    }
    let mut body = Vec::new();
    while let Some(piece) = answer.body.piece().await? {
        body.extend_from_slice(&piece);
        if body.len() > COMPLAINT_MAX {
            break;
        }
    }
    let passing = matches!(answer.status, 408 | 409 | 425 | 429 | 500..=599);
    if let (true, Some(wait)) = (passing, answer.retry_after) {
        tokio::time::sleep(wait.min(WAIT * WAITS_MAX)).await;
    }
    let what = format!("the model answered {}: {}", answer.status, talk::complaint(&body));
    Err(ModelFault { what, then: if passing { Then::Again } else { Then::Stop }, hint: None })
}

/// A summary of what was told, asked for in a request of its own.
async fn sum_up(model: &dyn Model, told: String) -> Result<String, ModelFault> {
    let card = model.card(Purpose::Summary);
    let room = card.context_tokens.saturating_sub(2 * SUMMARY_TOKENS) as usize;
    // Four bytes a token, and a token of three bytes is no rarity: leave a third free.
    let asked = [Turn::user(context::clip(&told, room * 8 / 3))];
    let wanted = Wanted { card: &card, system: prompt::SUM_UP, tools: &[], turns: &asked, output_tokens: SUMMARY_TOKENS };
    let mut answer = send(model, Purpose::Summary, &wanted).await?;
    let mut reader = Reader::new(card.speech);
    while let Some(piece) = answer.body.piece().await? {
        reader.feed(&piece).map_err(unreadable)?;
    }
    let (_, reply) = reader.finish().map_err(unreadable)?;
    let summary = Turn { by: By::Brain, parts: reply.parts }.text();
    if summary.trim().is_empty() {
        return Err(ModelFault { what: "the model summed nothing up".into(), then: Then::Again, hint: None });
    }
    Ok(summary)
}

fn wishes(calls: Vec<(String, String, serde_json::Value)>) -> Move {
    Move::Call(calls.into_iter().map(|(_, tool, input)| Wish { tool, input }).collect())
}

fn result(id: String, tool: String, end: Ended) -> Part {
    let (ok, text) = match end {
        Ended::Output { ok, value } => (ok, value.to_string()),
        Ended::Refused { reason, hint } => {
            let hint = hint.map_or_else(String::new, |hint| format!("\nhint: {hint}"));
            (false, format!("refused: {reason}{hint}"))
        }
    };
    Part::Result { id, tool, ok, text }
}

fn unreadable(garbled: Garbled) -> ModelFault {
    let (what, then) = match garbled {
        Garbled::Cut => ("the model's answer ended in the middle".to_owned(), Then::Again),
        Garbled::Strange(what) => (format!("the model's answer can't be read: {what}"), Then::Again),
        Garbled::Failed { what, passing } => (format!("the model failed: {what}"), if passing { Then::Again } else { Then::Stop }),
    };
    ModelFault { what, then, hint: None }
}
