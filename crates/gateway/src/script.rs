//! A model that follows a text file: for tests, demos, and people who try out their own policies and agents without paying for it.
//!
//! It answers in the wire format of the request, streamed or whole, so that the vendors' own clients can be driven by it. A
//! conversation's place in the script is read off the request (how often the model has spoken since the message that started it), so
//! requests may be retried and run side by side. The same request gives the same bytes.
//!
//! *Does not know* sockets or time: an answer says when its pieces are due, and the server waits.

mod parse;
#[cfg(test)]
mod tests;
mod tools;

use dialect::{
    AnswerPart, ClientRequest, ClientTurn, DenialKind, Dialect, Endpoint, ModelAnswer, RenderedAnswer, StopReason, TokenUsage, UsageSource,
    count,
};
pub use parse::ModelScriptError;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::{collections::HashMap, sync::Mutex};

/// Answers for conversations, and one for all else.
#[derive(Debug)]
pub struct ModelScript {
    conversations: Vec<Conversation>,
    otherwise: Option<Vec<ScriptMove>>,
    /// How often a request has been failed by an `error times=N`. The only thing that is remembered between requests.
    failed: Mutex<HashMap<[u8; 32], u32>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Conversation {
    /// Part of the user's message that starts it; none for the one that takes every request.
    on: Option<String>,
    turns: Vec<Turn>,
    /// Start again at the first answer after the last.
    repeat: bool,
}

/// One answer, perhaps with a choice by what the tools gave.
#[derive(Clone, Debug, Default, PartialEq)]
struct Turn {
    branches: Vec<Branch>,
}

#[derive(Clone, Debug, PartialEq)]
struct Branch {
    when: When,
    line: usize,
    moves: Vec<ScriptMove>,
}

#[derive(Clone, Debug, PartialEq)]
enum When {
    Always,
    Ok,
    Error,
    Contains(String),
}

#[derive(Clone, Debug, PartialEq)]
enum ScriptMove {
    Say(String),
    Think(String),
    Call { tool: String, input: Map<String, Value>, line: usize },
    Usage(TokenUsage),
    Delay(u64),
    Error(Fail),
    Stop(StopReason),
    Cut,
}

/// An error instead of an answer: always, or the first `times` that the same request comes.
#[derive(Clone, Debug, PartialEq)]
struct Fail {
    status: u16,
    times: Option<u32>,
    message: String,
    line: usize,
}

/// Why a script gives no answer, as the status and message of an error.
struct ScriptFailure {
    status: u16,
    message: String,
}

/// Requests remembered for `error times=N`; a script with more failing requests than this is a load test.
const FAILED_MAX: usize = 10_000;

impl ModelScript {
    pub fn parse(text: &str) -> Result<ModelScript, ModelScriptError> {
        parse::parse(text)
    }

    /// Answers one request as the provider would.
    pub fn respond(&self, dialect: Dialect, endpoint: Endpoint, path: &str, body: &[u8]) -> RenderedAnswer {
        if endpoint == Endpoint::Models {
            return RenderedAnswer::from(dialect.render_models(&["script"]));
        }
        let parsed = match dialect.parse_request(path, body) {
            Ok(parsed) => parsed,
            Err(error) => return RenderedAnswer::from(dialect.render_error(400, DenialKind::BadRequest, &error.to_string())),
        };
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        // INVARIANT: a body that was read as UTF-8 above.
        let input = count::estimate(std::str::from_utf8(body).unwrap_or_default());
        if endpoint == Endpoint::CountTokens {
            return dialect.render_token_count(input).into();
        }
        let client = dialect.read_conversation(&value);
        match self.answer(&client, body, input) {
            Ok(answer) => answer.render(path, &parsed, &client, body),
            Err(ScriptFailure { status, message }) => RenderedAnswer::from(dialect.render_error(status, denial_kind(status), &message)),
        }
    }

    fn answer(&self, client: &ClientRequest, body: &[u8], input: u64) -> Result<ModelAnswer, ScriptFailure> {
        let moves = match self.find_turn(client) {
            Some((talk, step)) => match talk.turn(step) {
                Some(turn) => turn.choose(client)?.to_vec(),
                None => vec![ScriptMove::Say("The script has no more answers.".to_owned())],
            },
            None => self.answer_aside(client)?,
        };
        self.build_answer(&moves, client, body, input)
    }

    /// Which conversation this is and how many answers it has had. None for what runs beside a conversation, as titles do.
    fn find_turn(&self, client: &ClientRequest) -> Option<(&Conversation, usize)> {
        let spoken = |from: usize| client.turns[from..].iter().filter(|turn| **turn == ClientTurn::Model).count();
        let started = client.turns.iter().enumerate().rev().find_map(|(at, turn)| {
            let ClientTurn::User(text) = turn else { return None };
            let talk = self.conversations.iter().find(|talk| talk.on.as_ref().is_some_and(|on| text.contains(on.as_str())))?;
            Some((talk, spoken(at)))
        });
        let any = || self.conversations.iter().find(|talk| talk.on.is_none()).map(|talk| (talk, spoken(0)));
        // Clients ask for titles and routes with the same words but without tools.
        started.or_else(any).filter(|(talk, _)| !client.tools.is_empty() || !talk.calls())
    }

    fn answer_aside(&self, client: &ClientRequest) -> Result<Vec<ScriptMove>, ScriptFailure> {
        if let Some(moves) = &self.otherwise {
            return Ok(moves.clone());
        }
        match &client.answer_schema {
            Some(schema) => Ok(vec![ScriptMove::Say(tools::smallest_value(schema).to_string())]),
            None if client.tools.is_empty() => Ok(vec![ScriptMove::Say("ok".to_owned())]),
            None => {
                let last =
                    client.turns.iter().rev().find_map(|turn| if let ClientTurn::User(text) = turn { Some(text.as_str()) } else { None });
                let last: String = last.unwrap_or_default().chars().take(200).collect();
                Err(ScriptFailure {
                    status: 400,
                    message: format!("no `on` of the script is in the last message `{last}`, and there is no `otherwise`"),
                })
            }
        }
    }

    fn build_answer(&self, moves: &[ScriptMove], client: &ClientRequest, body: &[u8], input: u64) -> Result<ModelAnswer, ScriptFailure> {
        let mut answer = ModelAnswer { parts: Vec::new(), usage: TokenUsage::default(), stop: StopReason::EndTurn, is_cut: false };
        let (mut usage, mut output) = (None, 0);
        for made in moves {
            match made {
                ScriptMove::Say(text) => answer.parts.push(AnswerPart::Text(text.clone())),
                ScriptMove::Think(text) => answer.parts.push(AnswerPart::Thought(text.clone())),
                ScriptMove::Delay(ms) => answer.parts.push(AnswerPart::Delay(*ms)),
                ScriptMove::Usage(given) => usage = Some(*given),
                ScriptMove::Stop(stop) => answer.stop = stop.clone(),
                ScriptMove::Cut => answer.is_cut = true,
                ScriptMove::Call { tool, input, line } => {
                    let called = tools::resolve(tool, input, client);
                    answer.parts.push(AnswerPart::Call(
                        called.map_err(|why| ScriptFailure { status: 400, message: format!("script, line {line}: {why}") })?,
                    ));
                }
                ScriptMove::Error(fail) if self.must_fail(fail, body) => {
                    return Err(ScriptFailure { status: fail.status, message: fail.message.clone() });
                }
                ScriptMove::Error(_) => {}
            }
        }
        let mut reasoning = 0;
        for part in &answer.parts {
            output += match part {
                AnswerPart::Text(text) => count::estimate(text),
                AnswerPart::Thought(text) => {
                    reasoning += count::estimate(text);
                    count::estimate(text)
                }
                AnswerPart::Call(called) => 10 + count::estimate(&called.input.text()),
                AnswerPart::Delay(_) => 0,
            };
        }
        answer.usage = usage.unwrap_or(TokenUsage { input, output, reasoning, source: UsageSource::Reported, ..TokenUsage::default() });
        Ok(answer)
    }

    fn must_fail(&self, fail: &Fail, body: &[u8]) -> bool {
        let Some(times) = fail.times else { return true };
        let key: [u8; 32] = Sha256::new().chain_update(fail.line.to_le_bytes()).chain_update(body).finalize().into();
        let mut failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if failed.len() >= FAILED_MAX && !failed.contains_key(&key) {
            failed.clear();
        }
        let count = failed.entry(key).or_default();
        *count = count.saturating_add(1);
        *count <= times
    }
}

impl Conversation {
    fn turn(&self, step: usize) -> Option<&Turn> {
        let step = if self.repeat { step % self.turns.len().max(1) } else { step };
        self.turns.get(step)
    }

    fn calls(&self) -> bool {
        let moves = self.turns.iter().flat_map(|turn| &turn.branches).flat_map(|branch| &branch.moves);
        moves.into_iter().any(|made| matches!(made, ScriptMove::Call { .. }))
    }
}

impl Turn {
    fn choose(&self, client: &ClientRequest) -> Result<&[ScriptMove], ScriptFailure> {
        let empty = Vec::new();
        let results = match client.turns.last() {
            Some(ClientTurn::Results(results)) => results,
            _ => &empty,
        };
        let fits = |when: &When| match when {
            When::Always => true,
            When::Ok => results.iter().all(|result| result.ok),
            When::Error => results.iter().any(|result| !result.ok),
            When::Contains(part) => results.iter().any(|result| result.text.contains(part.as_str())),
        };
        match self.branches.iter().find(|branch| fits(&branch.when)) {
            Some(branch) => Ok(&branch.moves),
            None if self.branches.is_empty() => Ok(&[]),
            None => {
                let line = self.branches[0].line;
                let text: String = results.iter().flat_map(|result| result.text.chars()).take(200).collect();
                Err(ScriptFailure {
                    status: 400,
                    message: format!("script, line {line}: no `on result` fits, and there is no `else`; the result is `{text}`"),
                })
            }
        }
    }
}

/// The kind of refusal that a script's `error STATUS` is.
fn denial_kind(status: u16) -> DenialKind {
    match status {
        401 => DenialKind::Unauthorized,
        402 => DenialKind::Budget,
        403 => DenialKind::Denied,
        404 => DenialKind::NotFound,
        413 => DenialKind::TooLarge,
        429 => DenialKind::RateLimited,
        503 | 529 => DenialKind::Overloaded,
        500..600 => DenialKind::Upstream,
        _ => DenialKind::BadRequest,
    }
}
