//! The built-in brain: a loop around a model, with no vendor's program between.
//!
//! It sends the conversation, passes on the model's text as it comes, and turns the model's calls into moves; several calls of one answer
//! are one move. **Invariant.** What it needs to go on after a crash is in its checkpoint before any call of that answer is made.

mod context;
mod loop_guard;
mod prompt;
mod question;
mod send;
mod trial;

pub use question::{QuestionFailure, SingleAnswer, SingleQuestion, ask_once};
pub use trial::try_model;

use crate::model::{Model, ModelFault, ModelResponse, Purpose, RetryClass};
use crate::{Brain, BrainFault, BrainInput, Brief, CallResult, Checkpoint, Move, ToolCall};
use context::{ANSWER_TOKENS, Conversation, SUMMARY_TOKENS, fit_tools};
use dialect::{ChatRequest, DecodedAnswer, ServerQuirks, Speaker, StopReason, StreamDecoder, Turn, TurnPart, estimate_tokens, vendor_name};
use loop_guard::LoopGuard;
use send::{FailureCause, RequestFailure, decode_fault, room_for_answer, sum_up};
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use world::RetryCause;

/// How often a request is made again before the brain gives up.
const TRIES_MAX: u32 = 6;
/// How often a summary is asked for again before the work goes on without one.
const SUMMARY_TRIES_MAX: u32 = 2;
/// The first wait; each next one is twice as long, and all vary by half.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest wait that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// How often a model that stops in the middle or says nothing is asked to go on.
const NUDGES_MAX: u32 = 3;
/// Rounds of calls in a row that bring nothing new: after so many the model is told …
const STALE_TOLD: u32 = 5;
/// … and after so many the work ends.
const STALE_MAX: u32 = 20;
/// Text is passed on in lines, or in pieces of this size.
const SAY_BYTES: usize = 400;
/// With less room than this for what happens, no work can be done.
const SHARE_MIN: u64 = 2_000;

pub struct Native {
    model: Arc<dyn Model>,
    brief: Brief,
    conversation: Conversation,
    /// The answer that is being read.
    stream: Option<Stream>,
    /// Some of its text was passed on already.
    was_passed_on: bool,
    /// Text that is not yet a whole line.
    pending_text: String,
    /// The move after that text.
    next_move: Option<Move>,
    /// What the brain itself has to say, before anything else.
    notes: VecDeque<String>,
    /// How long to wait before the next request.
    delay: Duration,
    tries: u32,
    nudges: u32,
    loop_guard: LoopGuard,
    quirks: ServerQuirks,
    /// Another server may be asked for summaries.
    summary_quirks: ServerQuirks,
    first_delay: Duration,
}

/// Calls whose result says where the work stands from there on.
const WORKFLOW_TOOLS: [&str; 2] = ["plan.complete", "workflow.request_exemption"];

/// What the brain is told of its place in every request, where a call has changed that.
fn workflow_in(tool: &str, result: &CallResult) -> Option<String> {
    match result {
        CallResult::Output { value, .. } if WORKFLOW_TOOLS.contains(&tool) => value["prompt"].as_str().map(str::to_owned),
        _ => None,
    }
}

struct Stream {
    response: ModelResponse,
    decoder: StreamDecoder,
    /// Our estimate of the request, to learn from the vendor's figure.
    estimated: u64,
}

impl Native {
    pub fn new(model: Arc<dyn Model>, brief: Brief) -> Native {
        Native {
            model,
            brief,
            conversation: Conversation::default(),
            stream: None,
            was_passed_on: false,
            pending_text: String::new(),
            next_move: None,
            notes: VecDeque::new(),
            delay: Duration::ZERO,
            tries: 0,
            nudges: 0,
            loop_guard: LoopGuard::default(),
            quirks: ServerQuirks::default(),
            summary_quirks: ServerQuirks::default(),
            first_delay: FIRST_DELAY,
        }
    }

    /// Sets how long to wait before the first retry.
    pub fn with_first_delay(mut self, delay: Duration) -> Native {
        self.first_delay = delay;
        self
    }

    /// Takes the result of the last move. Calls that were wanted and have no result yet are wanted again.
    fn take_input(&mut self, input: BrainInput) -> Result<Option<Move>, BrainFault> {
        match input {
            BrainInput::Start { prompt, memory, further, .. } => {
                self.conversation = Conversation::new(prompt, self.brief.pins.clone());
                let context_tokens = self.model.info(Purpose::Work).context_tokens;
                self.conversation.project = context::fit_project_texts(&self.brief.project_texts, context_tokens);
                self.conversation.recall(&memory).map_err(|error| BrainFault::new(format!("its checkpoint cannot be read: {error}")))?;
                self.conversation.expect(further.prompts);
                let open = self.conversation.open_calls();
                if !open.is_empty() {
                    return Ok(Some(Move::Call(tool_calls(open))));
                }
                if self.conversation.hear() {
                    return Ok(None);
                }
                // It had finished, and the kernel was not told.
                if let Some(turn) = self.conversation.turns.last().filter(|turn| turn.speaker == Speaker::Model) {
                    return Ok(Some(Move::Done(turn.text())));
                }
            }
            BrainInput::Results(results) => self.take_results(results)?,
            BrainInput::Hook(hook) => {
                if self.conversation.turns.is_empty() {
                    self.conversation = Conversation::new(hook.task, self.brief.pins.clone());
                    self.conversation
                        .recall(&hook.memory)
                        .map_err(|error| BrainFault::new(format!("its checkpoint cannot be read: {error}")))?;
                }
                (self.stream, self.next_move) = (None, None);
                self.pending_text.clear();
                self.conversation.turns.push(Turn::user(&hook.prompt));
            }
            BrainInput::OwnCallAllowed(_) | BrainInput::OwnCallRefused { .. } | BrainInput::Continue => {}
        }
        Ok(self.next_move.take())
    }

    /// Takes the results of the open calls. A model that repeats itself is told so, and stopped when it goes on.
    fn take_results(&mut self, results: Vec<CallResult>) -> Result<(), BrainFault> {
        let open = self.conversation.open_calls();
        let stale = self.loop_guard.add(&tool_calls(open.clone()), &results);
        let circles = format!("the model goes round in circles: {stale} rounds of calls in a row brought nothing new");
        if stale >= STALE_MAX {
            let what = format!("{circles}; it makes these again and again: {}", self.loop_guard.circle());
            let hint = Some("word the task differently, or use another model".to_owned());
            return Err(BrainFault { what, hint, may_retry: None, crashed: false });
        }
        if stale == STALE_TOLD {
            self.notes.push_back(format!("{circles}; it was told so"));
        }
        let mut told = results.iter().zip(&open).filter_map(|(result, (_, tool, _))| workflow_in(tool, result));
        if let Some(workflow) = told.next_back() {
            self.brief.workflow = Some(workflow);
        }
        let mut parts: Vec<TurnPart> = open.into_iter().zip(results).map(|((id, tool, _), result)| result_part(id, tool, result)).collect();
        if let (true, Some(TurnPart::Result { text, .. })) = (stale >= STALE_TOLD, parts.last_mut()) {
            text.push_str(&format!(
                "\n[{stale} rounds of calls in a row gave what you had already; do something else, or say what is in the way]"
            ));
        }
        self.conversation.turns.push(Turn { speaker: Speaker::User, parts });
        self.conversation.hear();
        Ok(())
    }

    /// Goes on with the conversation up to the next move.
    async fn proceed(&mut self) -> Result<Move, BrainFault> {
        loop {
            if let Some(note) = self.notes.pop_front() {
                return Ok(Move::Say(note));
            }
            if !self.delay.is_zero() {
                tokio::time::sleep(std::mem::take(&mut self.delay)).await;
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
                Err(failure) => {
                    self.pending_text.clear();
                    self.stream = None;
                    if let Some(wait) = self.on_failure(failure)? {
                        return Ok(wait);
                    }
                }
            }
        }
    }

    /// Sends the conversation, shortened where it has grown too long.
    async fn open(&mut self) -> Result<Stream, RequestFailure> {
        let info = self.model.info(Purpose::Work);
        let system = prompt::system(&self.brief);
        let (tools, tool_tokens) = fit_tools(&self.brief.tools);
        let answer_tokens = room_for_answer(&info, ANSWER_TOKENS);
        let fixed = estimate_tokens(&system) + tool_tokens;
        let (opening, kept_free) = (fixed + self.conversation.opening().tokens(), SUMMARY_TOKENS + answer_tokens);
        if info.context_tokens < opening + kept_free + SHARE_MIN {
            return Err(send::too_small(&info.model, info.context_tokens, opening + kept_free + SHARE_MIN));
        }
        let share = info.context_tokens.saturating_sub(self.conversation.scaled(opening) + kept_free).max(SHARE_MIN);
        self.make_room(share).await?;
        self.conversation.squeeze(share);
        let turns = self.conversation.shown();
        let estimated = fixed + turns.iter().map(Turn::tokens).sum::<u64>();
        let (output_tokens, quirks) = (answer_tokens, self.quirks);
        let request = ChatRequest { model: &info.model, system: &system, tools: &tools, turns: &turns, output_tokens, quirks };
        let response = send::send(&*self.model, Purpose::Work, info.dialect, &request).await?;
        self.was_passed_on = false;
        Ok(Stream { response, decoder: StreamDecoder::new(info.dialect), estimated })
    }

    /// Puts summaries in the place of the oldest turns, until the rest has room to grow. Where none can be had, the bare list of calls
    /// stands in: a model that won't sum up must not end the work.
    async fn make_room(&mut self, share: u64) -> Result<(), RequestFailure> {
        while let Some(at) = self.conversation.split_point(share) {
            let info = self.model.info(Purpose::Summary);
            let (told, at) = self.conversation.quoted(at, send::room_for_summary(&info));
            let summary = match sum_up(&*self.model, &info, told, self.summary_quirks).await {
                Ok(summary) => summary,
                Err(RequestFailure { cause: FailureCause::Quirk(quirks), .. }) if quirks != self.summary_quirks => {
                    self.summary_quirks = quirks;
                    continue;
                }
                Err(failure) if failure.is_final() || (failure.fault.retry == RetryClass::Transient && self.tries >= SUMMARY_TRIES_MAX) => {
                    self.notes
                        .push_back(format!("no summary could be made ({}); a list of the calls stands in for it", failure.fault.what));
                    self.conversation.call_list(at)
                }
                Err(failure) => return Err(failure),
            };
            self.conversation.shorten(at, summary);
        }
        Ok(())
    }

    /// Reads on, up to the next thing to say or to do.
    async fn read(&mut self) -> Result<Option<Move>, RequestFailure> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        match stream.response.body.chunk().await? {
            Some(chunk) => {
                self.pending_text.push_str(&stream.decoder.push(&chunk).map_err(decode_fault)?);
                let line = self.whole_line();
                self.was_passed_on |= line.is_some();
                Ok(line.map(Move::Say))
            }
            None => {
                let Some(Stream { decoder, estimated, .. }) = self.stream.take() else { return Ok(None) };
                let (text, answer) = decoder.finish().map_err(decode_fault)?;
                self.pending_text.push_str(&text);
                self.conversation.calibrate(answer.input_tokens.unwrap_or(0), estimated);
                let next = self.take_answer(answer)?;
                let rest = std::mem::take(&mut self.pending_text);
                if rest.trim().is_empty() {
                    return Ok(next);
                }
                self.next_move = next;
                Ok(Some(Move::Say(rest.trim_end().to_owned())))
            }
        }
    }

    /// A whole line of the text so far, or a long piece of one.
    fn whole_line(&mut self) -> Option<String> {
        let (end, is_line) = match self.pending_text.rfind('\n') {
            Some(end) => (end + 1, true),
            None if self.pending_text.len() > SAY_BYTES => (self.pending_text.rfind(' ')? + 1, false),
            None => return None,
        };
        // Blank lines belong to what follows them, so that paragraphs stay apart.
        if self.pending_text[..end].trim().is_empty() {
            return None;
        }
        let rest = self.pending_text.split_off(end);
        let said = std::mem::replace(&mut self.pending_text, rest);
        if !is_line {
            // A piece of a line keeps its space: it goes on.
            return Some(said);
        }
        let text = said.trim_end().to_owned();
        let blank = said[text.len()..].matches('\n').count().saturating_sub(1);
        self.pending_text.insert_str(0, &"\n".repeat(blank));
        Some(text)
    }

    /// What a whole answer means. `None` when the model is to go on.
    fn take_answer(&mut self, answer: DecodedAnswer) -> Result<Option<Move>, ModelFault> {
        self.tries = 0;
        let mut turn = Turn::model(answer.parts);
        // No vendor takes back a text of nothing but space, though some write one.
        turn.parts.retain(|part| !matches!(part, TurnPart::Text(text) if text.trim().is_empty()));
        self.name_calls(&mut turn);
        let said = turn.text();
        if let StopReason::Withheld(why) = answer.stop {
            let hint = Some("word the task differently, or use another model".to_owned());
            return Err(ModelFault { what: format!("the model would not answer: {why}"), retry: RetryClass::Final, hint });
        }
        let is_cut = answer.stop == StopReason::Length;
        if is_cut || (turn.calls().count() == 0 && said.is_empty()) {
            return self.nudge(is_cut, said).map(|()| None);
        }
        self.nudges = 0;
        self.conversation.turns.push(turn);
        let calls = self.conversation.open_calls();
        Ok(Some(if calls.is_empty() { Move::Done(said) } else { Move::Call(tool_calls(calls)) }))
    }

    /// Asks a model to go on that stopped in the middle or said nothing. Only its words stay: the last call of an answer that was cut
    /// may be half a call, and no vendor takes a thought back that nothing follows.
    fn nudge(&mut self, is_cut: bool, said: String) -> Result<(), ModelFault> {
        self.nudges += 1;
        if self.nudges > NUDGES_MAX {
            let (what, hint) = if is_cut {
                ("the model's answers are cut off each time", "give its provider more `output_tokens`, or make the task smaller")
            } else {
                ("the model says nothing", "use another model")
            };
            return Err(ModelFault { what: what.into(), retry: RetryClass::Final, hint: Some(hint.into()) });
        }
        let said = if said.is_empty() { "…".to_owned() } else { said };
        let nudge = if is_cut { "You were cut off. Go on, in smaller steps." } else { "Go on; or say what you did, if you are finished." };
        self.conversation.turns.extend([Turn::model(vec![TurnPart::Text(said)]), Turn::user(nudge)]);
        Ok(())
    }

    /// Gives calls the names that the kernel knows, and ids of their own where the vendor gave none or the same to several.
    fn name_calls(&self, turn: &mut Turn) {
        let at = self.conversation.turns.len();
        let mut taken: HashSet<String> = self.conversation.turns.iter().flat_map(Turn::calls).map(|(id, ..)| id.to_owned()).collect();
        for (n, part) in turn.parts.iter_mut().enumerate() {
            if let TurnPart::Call { id, tool, .. } = part {
                if id.is_empty() || !taken.insert(id.clone()) {
                    *id = format!("call_{at}_{n}");
                }
                if let Some(spec) = self.brief.tools.iter().find(|spec| vendor_name(&spec.name) == *tool) {
                    tool.clone_from(&spec.name);
                }
            }
        }
    }

    /// Waits before another try, or gives up. `Some` where there is something to say or the whole task must wait.
    fn on_failure(&mut self, failure: RequestFailure) -> Result<Option<Move>, BrainFault> {
        let RequestFailure { fault, retry_after, cause } = failure;
        match cause {
            FailureCause::Quirk(quirks) if quirks != self.quirks => {
                self.quirks = quirks;
                return Ok(None);
            }
            // Our figure was too low; with a higher one the older turns are summed up.
            FailureCause::TooLong if self.conversation.lower_cap() => return Ok(None),
            // Nothing is lost before the first answer, and whoever waits learns at once what to mend.
            FailureCause::Unreachable if self.conversation.turns.is_empty() => {
                return Err(BrainFault { what: fault.what, hint: fault.hint, may_retry: Some(RetryCause::Model), crashed: false });
            }
            _ => {}
        }
        let is_unreachable = matches!(cause, FailureCause::Unreachable);
        match fault.retry {
            RetryClass::Waiting => Ok(Some(Move::Say(format!("waiting: {}", fault.what)))),
            RetryClass::NeedsReview(review) => Ok(Some(Move::Wait(review))),
            RetryClass::Transient if self.tries < TRIES_MAX => {
                let wait = self.first_delay * (1 << self.tries);
                // Brains that failed together must not come back together.
                let jitter = RandomState::new().hash_one(self.tries) % 1000;
                self.delay = (wait / 2 + wait * jitter as u32 / 1000).max(retry_after.min(RETRY_AFTER_MAX));
                self.tries += 1;
                // A single failure passes unnoticed, unless what was said before it will be said again.
                let told = self.was_passed_on || self.tries > 1 || is_unreachable;
                Ok(told.then(|| Move::Say(format!("{}; asking again, {} of {TRIES_MAX}", fault.what, self.tries))))
            }
            RetryClass::Transient => {
                let what = format!("{}, {} times in a row", fault.what, self.tries + 1);
                Err(BrainFault { what, hint: fault.hint, may_retry: Some(RetryCause::Model), crashed: false })
            }
            RetryClass::Blocked(cause) => Err(BrainFault { what: fault.what, hint: fault.hint, may_retry: Some(cause), crashed: false }),
            RetryClass::Final => Err(BrainFault { what: fault.what, hint: fault.hint, may_retry: None, crashed: false }),
        }
    }
}

impl Brain for Native {
    fn next(&mut self, input: BrainInput) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>> {
        Box::pin(async move {
            match self.take_input(input)? {
                Some(next) => Ok(next),
                None => self.proceed().await,
            }
        })
    }

    fn checkpoint(&mut self) -> Option<Checkpoint> {
        self.conversation.checkpoint()
    }
}

fn tool_calls(calls: Vec<(String, String, serde_json::Value)>) -> Vec<ToolCall> {
    calls.into_iter().map(|(_, tool, input)| ToolCall { tool, input }).collect()
}

fn result_part(id: String, tool: String, result: CallResult) -> TurnPart {
    let (ok, text) = match result {
        CallResult::Output { ok, value } => (ok, value.to_string()),
        CallResult::Refused(refusal) => (false, refusal.told().to_string()),
    };
    TurnPart::Result { id, tool, ok, text }
}
