//! The built-in brain: a loop around a model, with no vendor's program between.
//!
//! It asks, says what it hears as it comes, and turns what the model wants into moves; several calls of one answer are one move.
//! **Invariant.** Whatever it needs to go on after a crash is in what it gives to be kept, before any call of that answer is made.

mod ask;
mod chat;
mod context;
mod gemini;
mod messages;
mod prompt;
mod responses;
mod rounds;
mod sse;
mod talk;
mod turn;

use crate::model::{Answer, Model, ModelFault, Purpose, Then};
use crate::{Brain, BrainFault, Brief, Ended, Heard, Keep, Move, Wish};
use ask::{Miss, Why, room_for_answer, send, sum_up, unreadable};
use context::{ANSWER_TOKENS, Conversation, SUMMARY_TOKENS, fit_tools};
use rounds::Rounds;
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use talk::complaint;
use talk::{Quirks, Reader, Reply, Stop, Wanted};
use turn::{By, Part, Turn, tokens};

/// How often a request is made again before the brain gives up.
const TRIES_MAX: u32 = 6;
/// How often a summary is asked for again before the work goes on without one.
const SUMMARY_TRIES_MAX: u32 = 2;
/// The first wait; each next one is twice as long, and all vary by half.
const WAIT: Duration = Duration::from_millis(500);
/// The longest wait that a server may ask for.
const AFTER_MAX: Duration = Duration::from_secs(30);
/// How often a model that stops in the middle or says nothing is asked to go on.
const NUDGES_MAX: u32 = 3;
/// Rounds of calls in a row that bring nothing new: so many are remarked upon, so many end the work.
const STALE_TOLD: u32 = 5;
const STALE_MAX: u32 = 20;
/// Text is passed on in lines, or in pieces of this size.
const SAY_BYTES: usize = 400;
/// With less room than this for what happens, no work can be done.
const SHARE_MIN: u64 = 2_000;

pub struct Native {
    model: Arc<dyn Model>,
    brief: Brief,
    talk: Conversation,
    /// The answer that is being read.
    stream: Option<Stream>,
    /// Something of it was passed on already.
    heard: bool,
    /// Text that is on its way out.
    saying: String,
    /// What comes after it.
    then: Option<Move>,
    /// What the brain itself has to tell, before anything else.
    notes: VecDeque<String>,
    /// How long to rest before the next request.
    rest: Duration,
    tries: u32,
    nudges: u32,
    rounds: Rounds,
    quirks: Quirks,
    /// Another server may be asked for summaries.
    quirks_of_summaries: Quirks,
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
            heard: false,
            saying: String::new(),
            then: None,
            notes: VecDeque::new(),
            rest: Duration::ZERO,
            tries: 0,
            nudges: 0,
            rounds: Rounds::default(),
            quirks: Quirks::default(),
            quirks_of_summaries: Quirks::default(),
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
                    return Ok(Some(Move::Call(wishes(open))));
                }
                // It had finished, and the word did not get out.
                if let Some(turn) = self.talk.turns.last().filter(|turn| turn.by == By::Brain) {
                    return Ok(Some(Move::Done(turn.text())));
                }
            }
            Heard::Ended(ends) => self.settle(ends)?,
            Heard::Leave | Heard::Refused { .. } | Heard::Silence => {}
        }
        Ok(self.then.take())
    }

    /// Takes in what came of the open calls. A model that goes round in circles is told so, and stopped when it does not listen.
    fn settle(&mut self, ends: Vec<Ended>) -> Result<(), BrainFault> {
        let open = self.talk.open_calls();
        let stale = self.rounds.add(&wishes(open.clone()), &ends);
        let circles = format!("the model goes round in circles: {stale} rounds of calls in a row brought nothing new");
        if stale >= STALE_MAX {
            let what = format!("{circles}; it makes these again and again: {}", self.rounds.circle());
            return Err(BrainFault { what, hint: Some("word the task differently, or use another model".to_owned()) });
        }
        if stale == STALE_TOLD {
            self.notes.push_back(format!("{circles}; it was told so"));
        }
        let mut parts: Vec<Part> = open.into_iter().zip(ends).map(|((id, tool, _), end)| result(id, tool, end)).collect();
        if let (true, Some(Part::Result { text, .. })) = (stale >= STALE_TOLD, parts.last_mut()) {
            text.push_str(&format!(
                "\n[{stale} rounds of calls in a row gave what you had already; do something else, or say what is in the way]"
            ));
        }
        self.talk.turns.push(Turn { by: By::User, parts });
        Ok(())
    }

    async fn go_on(&mut self) -> Result<Move, BrainFault> {
        loop {
            if let Some(note) = self.notes.pop_front() {
                return Ok(Move::Say(note));
            }
            if !self.rest.is_zero() {
                tokio::time::sleep(std::mem::take(&mut self.rest)).await;
            }
            let step = match &self.stream {
                Some(_) => self.read().await,
                None => self.open().await.map(|stream| {
                    self.stream = Some(stream);
                    None
                }),
            };
            match step {
                Ok(Some(next)) => return Ok(next),
                Ok(None) => {}
                Err(miss) => {
                    self.saying.clear();
                    self.stream = None;
                    if let Some(wait) = self.bear(miss)? {
                        return Ok(wait);
                    }
                }
            }
        }
    }

    /// Sends the conversation, shortened where it has grown too long.
    async fn open(&mut self) -> Result<Stream, Miss> {
        let card = self.model.card(Purpose::Work);
        let system = prompt::system(&self.brief);
        let (tools, tool_tokens) = fit_tools(&self.brief.tools);
        let answer_tokens = room_for_answer(&card, ANSWER_TOKENS);
        let said = tokens(&system) + tool_tokens;
        let (told, kept_free) = (said + self.talk.opening().tokens(), SUMMARY_TOKENS + answer_tokens);
        if card.context_tokens < told + kept_free + SHARE_MIN {
            return Err(ask::too_small(&card.model, card.context_tokens, told + kept_free + SHARE_MIN));
        }
        let share = card.context_tokens.saturating_sub(self.talk.scaled(told) + kept_free).max(SHARE_MIN);
        self.make_room(share).await?;
        self.talk.squeeze(share);
        let turns = self.talk.shown();
        let estimated = said + turns.iter().map(Turn::tokens).sum::<u64>();
        let wanted =
            Wanted { card: &card, system: &system, tools: &tools, turns: &turns, output_tokens: answer_tokens, quirks: self.quirks };
        let answer = send(&*self.model, Purpose::Work, &wanted).await?;
        self.heard = false;
        Ok(Stream { answer, reader: Reader::new(card.speech), estimated })
    }

    /// Puts summaries in the place of the oldest turns, until the rest has room to grow. Where none can be had, the bare list of calls
    /// stands in: a model that won't sum up must not end the work.
    async fn make_room(&mut self, share: u64) -> Result<(), Miss> {
        while let Some(at) = self.talk.overfull(share) {
            let card = self.model.card(Purpose::Summary);
            let (told, at) = self.talk.told(at, ask::room_for_summary(&card));
            let summary = match sum_up(&*self.model, &card, told, self.quirks_of_summaries).await {
                Ok(summary) => summary,
                Err(Miss { why: Why::Quirk(quirks), .. }) if quirks != self.quirks_of_summaries => {
                    self.quirks_of_summaries = quirks;
                    continue;
                }
                Err(miss) if miss.lasts() || (miss.fault.then == Then::Again && self.tries >= SUMMARY_TRIES_MAX) => {
                    self.notes.push_back(format!("no summary could be made ({}); a list of the calls stands in for it", miss.fault.what));
                    self.talk.listed(at)
                }
                Err(miss) => return Err(miss),
            };
            self.talk.shorten(at, summary);
        }
        Ok(())
    }

    /// Reads on, up to the next thing to say or to do.
    async fn read(&mut self) -> Result<Option<Move>, Miss> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        match stream.answer.body.piece().await? {
            Some(piece) => {
                self.saying.push_str(&stream.reader.feed(&piece).map_err(unreadable)?);
                let spoken = self.spoken();
                self.heard |= spoken.is_some();
                Ok(spoken.map(Move::Say))
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
        // No vendor takes back a text of nothing but space, though some write one.
        turn.parts.retain(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()));
        self.name_calls(&mut turn);
        let said = turn.text();
        if let Stop::Withheld(why) = reply.stop {
            let hint = Some("word the task differently, or use another model".to_owned());
            return Err(ModelFault { what: format!("the model would not answer: {why}"), then: Then::Stop, hint });
        }
        let cut = reply.stop == Stop::Length;
        if cut || (turn.calls().count() == 0 && said.is_empty()) {
            return self.nudge(cut, said).map(|()| None);
        }
        self.nudges = 0;
        self.talk.turns.push(turn);
        let calls = self.talk.open_calls();
        Ok(Some(if calls.is_empty() { Move::Done(said) } else { Move::Call(wishes(calls)) }))
    }

    /// Asks a model to go on that stopped in the middle or said nothing. Only its words stay: the last call of an answer that was cut
    /// may be half a call, and no vendor takes a thought back that nothing follows.
    fn nudge(&mut self, cut: bool, said: String) -> Result<(), ModelFault> {
        self.nudges += 1;
        if self.nudges > NUDGES_MAX {
            let (what, hint) = if cut {
                ("the model's answers are cut off each time", "give its provider more `output_tokens`, or make the task smaller")
            } else {
                ("the model says nothing", "use another model")
            };
            return Err(ModelFault { what: what.into(), then: Then::Stop, hint: Some(hint.into()) });
        }
        let said = if said.is_empty() { "…".to_owned() } else { said };
        let nudge = if cut { "You were cut off. Go on, in smaller steps." } else { "Go on; or say what you did, if you are finished." };
        self.talk.turns.extend([Turn { by: By::Brain, parts: vec![Part::Text(said)] }, Turn::user(nudge)]);
        Ok(())
    }

    /// Gives calls the names that the kernel knows, and ids of their own where the vendor gave none or the same to several.
    fn name_calls(&self, turn: &mut Turn) {
        let at = self.talk.turns.len();
        let mut taken: HashSet<String> = self.talk.turns.iter().flat_map(Turn::calls).map(|(id, ..)| id.to_owned()).collect();
        for (n, part) in turn.parts.iter_mut().enumerate() {
            if let Part::Call { id, tool, .. } = part {
                if id.is_empty() || !taken.insert(id.clone()) {
                    *id = format!("call_{at}_{n}");
                }
                if let Some(card) = self.brief.tools.iter().find(|card| talk::name_for(&card.name) == *tool) {
                    tool.clone_from(&card.name);
                }
            }
        }
    }

    /// Rests before another try, or gives up. `Some` where there is something to tell or the whole task must wait.
    fn bear(&mut self, miss: Miss) -> Result<Option<Move>, BrainFault> {
        let Miss { fault, after, why } = miss;
        match why {
            Why::Quirk(quirks) if quirks != self.quirks => {
                self.quirks = quirks;
                return Ok(None);
            }
            // Our figure was too low; with a higher one the older turns are summed up.
            Why::TooLong if self.talk.doubt() => return Ok(None),
            _ => {}
        }
        match fault.then {
            Then::Later => Ok(Some(Move::Say(format!("waiting: {}", fault.what)))),
            Then::Wait(review) => Ok(Some(Move::Wait(review))),
            Then::Again if self.tries < TRIES_MAX => {
                let wait = self.wait * (1 << self.tries);
                // Brains that failed together must not come back together.
                let jitter = RandomState::new().hash_one(self.tries) % 1000;
                self.rest = (wait / 2 + wait * jitter as u32 / 1000).max(after.min(AFTER_MAX));
                self.tries += 1;
                // A single failure passes unnoticed, unless what was said before it will be said again.
                let told = self.heard || self.tries > 1;
                Ok(told.then(|| Move::Say(format!("{}; asking again, {} of {TRIES_MAX}", fault.what, self.tries))))
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

fn wishes(calls: Vec<(String, String, serde_json::Value)>) -> Vec<Wish> {
    calls.into_iter().map(|(_, tool, input)| Wish { tool, input }).collect()
}

fn result(id: String, tool: String, end: Ended) -> Part {
    let (ok, text) = match end {
        Ended::Output { ok, value } => (ok, value.to_string()),
        Ended::Refused(refusal) => (false, refusal.told().to_string()),
    };
    Part::Result { id, tool, ok, text }
}
