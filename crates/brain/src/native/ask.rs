//! One request, sent and answered, or the reason why not and what may help.

use super::context::{self, SUMMARY_TOKENS};
use super::prompt;
use super::talk::{self, Garbled, Quirks, Reader, Stop, Wanted};
use super::turn::{By, Turn};
use crate::model::{Answer, Card, Model, ModelFault, Purpose, Speech, Then};
use std::time::Duration;

/// Bytes of an error's body that are read.
const COMPLAINT_MAX: usize = 64 * 1024;

/// A request that brought no answer.
pub struct Miss {
    pub fault: ModelFault,
    /// Not to be asked again before.
    pub after: Duration,
    pub why: Why,
}

pub enum Why {
    Other,
    /// The request was more than the model or the budget takes.
    TooLong,
    /// The server wants it put like this.
    Quirk(Quirks),
}

impl From<ModelFault> for Miss {
    fn from(fault: ModelFault) -> Miss {
        Miss { fault, after: Duration::ZERO, why: Why::Other }
    }
}

impl Miss {
    /// Is it of no use to ask for the same once more?
    pub fn lasts(&self) -> bool {
        self.fault.then == Then::Stop
    }
}

/// Words by which servers, and our own budget, say that a request is too long. There is no code for it that two of them share.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "context length",
    "context_length",
    "context window",
    "maximum number of tokens",
    "shorten the conversation",
];

/// Sends a request. Anything but a yes is a miss, with what the server said about it.
pub async fn send(model: &dyn Model, purpose: Purpose, wanted: &Wanted<'_>) -> Result<Answer, Miss> {
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
    let said = talk::complaint(&body);
    let passing = !answer.settled && matches!(answer.status, 408 | 409 | 425 | 429 | 500..=599);
    let why = match answer.status {
        400 | 402 | 413 | 429 if !passing => reason(&said, wanted),
        _ => Why::Other,
    };
    let hint = match answer.status {
        401 => Some("check the `key` of its provider in $SKEP_HOME/config.yml"),
        _ if passing => Some("try again later, or name a second model in `models` to fall back on"),
        _ => None,
    };
    let fault = ModelFault {
        what: format!("the model answered {}: {said}", answer.status),
        then: if passing { Then::Again } else { Then::Stop },
        hint: hint.map(str::to_owned),
    };
    Err(Miss { fault, after: answer.retry_after.filter(|_| passing).unwrap_or_default(), why })
}

fn reason(said: &str, wanted: &Wanted<'_>) -> Why {
    let said = said.to_lowercase();
    match wanted.card.speech {
        Speech::Chat if said.contains("max_completion_tokens") => Why::Quirk(Quirks { newer_limit: true, ..wanted.quirks }),
        Speech::Responses if said.contains("encrypted content") || said.contains("encrypted_content") => {
            Why::Quirk(Quirks { no_thoughts: true, ..wanted.quirks })
        }
        _ if TOO_LONG.iter().any(|words| said.contains(words)) => Why::TooLong,
        _ => Why::Other,
    }
}

/// A model that cannot hold even the beginning of the work.
pub fn too_small(model: &str, has: u64, needs: u64) -> Miss {
    let what = format!("`{model}` has room for {has} tokens, and this work needs {needs} before it begins");
    let hint = Some("use a model with a larger context; if it has one, say so by `context_tokens` of its provider".to_owned());
    ModelFault { what, then: Then::Stop, hint }.into()
}

/// What an answer may have: so much, or an eighth of the context if that is more, and never more than the model gives.
pub fn room_for_answer(card: &Card, least: u64) -> u64 {
    card.output_tokens_max.min(least.max(card.context_tokens / 8))
}

/// Bytes that a request for a summary may tell.
pub fn room_for_summary(card: &Card) -> usize {
    let taken = room_for_answer(card, SUMMARY_TOKENS) + SUMMARY_TOKENS;
    // Four bytes a token, and a token of three bytes is no rarity: leave a third free.
    (card.context_tokens.saturating_sub(taken).max(SUMMARY_TOKENS) as usize) * 8 / 3
}

/// A summary of what was told, asked for in a request of its own: never longer than its share, nor than what it sums up.
pub async fn sum_up(model: &dyn Model, card: &Card, told: String, quirks: Quirks) -> Result<String, Miss> {
    let asked = [Turn::user(told.clone())];
    // More than a summary has: models that think do so at the expense of their answer.
    let output_tokens = room_for_answer(card, SUMMARY_TOKENS);
    let wanted = Wanted { card, system: prompt::SUM_UP, tools: &[], turns: &asked, output_tokens, quirks };
    let mut answer = send(model, Purpose::Summary, &wanted).await?;
    let mut reader = Reader::new(card.speech);
    while let Some(piece) = answer.body.piece().await? {
        reader.feed(&piece).map_err(unreadable)?;
    }
    let (_, reply) = reader.finish().map_err(unreadable)?;
    if let Stop::Withheld(why) = reply.stop {
        return Err(ModelFault { what: format!("the model would not sum up: {why}"), then: Then::Stop, hint: None }.into());
    }
    let summary = Turn { by: By::Brain, parts: reply.parts }.text();
    if summary.trim().is_empty() {
        return Err(ModelFault { what: "the model summed nothing up".into(), then: Then::Stop, hint: None }.into());
    }
    let summary = context::clip(&summary, context::SUMMARY_BYTES);
    Ok(if summary.len() > told.len() { told } else { summary.to_owned() })
}

pub fn unreadable(garbled: Garbled) -> ModelFault {
    let (what, then) = match garbled {
        Garbled::Cut => ("the model's answer ended in the middle".to_owned(), Then::Again),
        Garbled::Strange(what) => (format!("the model's answer can't be read: {what}"), Then::Again),
        Garbled::Failed { what, passing } => (format!("the model failed: {what}"), if passing { Then::Again } else { Then::Stop }),
    };
    ModelFault { what, then, hint: None }
}
