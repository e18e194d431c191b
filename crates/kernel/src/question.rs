//! A question as a person must see it before saying yes: whole, with what it would change.

use crate::Kernel;
use ledger::{MERGE, Reply};
use serde_json::Value;
use world::{Code, Fault, FaultKind, Refusal, Review, ReviewId, ReviewState, Stop};

/// All that a yes would cover.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The exact input; as it is on record where that is all there is.
    pub input: Value,
    /// What a yes would change, where that can be told.
    pub diff: Option<String>,
    /// The record shows less than a yes covers.
    pub is_cut: bool,
    /// What the record leaves out is gone, or was never text: nobody can show it here.
    pub is_lost: bool,
    /// What a yes must repeat where the question is cut, to say that its whole was seen.
    pub seen: String,
}

/// Characters of the digest that an answer repeats.
const SEEN_CHARS: usize = 8;

impl Kernel {
    /// A question as far as it can be shown at all. The exact input is kept until there is an answer.
    pub async fn question(&self, review: &Review) -> Result<Question, Stop> {
        let code = |digest: &str| digest.get(..SEEN_CHARS).unwrap_or(digest).to_owned();
        if review.tool == MERGE {
            let files = match review.task {
                Some(task) => self.diff(task).await?.files,
                None => Vec::new(),
            };
            let unshown = files.iter().any(|file| !file.is_whole && file.refused.is_none());
            let diff = files.iter().map(|file| file.in_question()).collect();
            let (input, seen) = (review.input.clone(), code(&review.bind));
            return Ok(Question { input, diff: Some(diff), is_cut: unshown, is_lost: unshown, seen });
        }
        let open = review.state == ReviewState::Open;
        let (input, is_lost) = match &review.whole {
            Some(_) if open => {
                match workspace::aside(|| self.ledger.journal().vault().get(&review.id.to_string())).map_err(ledger::fault)? {
                    Some(bytes) => {
                        let read = serde_json::from_slice(&bytes);
                        (read.map_err(|error| Fault::new(FaultKind::Bug, "a kept input cannot be read", error))?, false)
                    }
                    None => (review.input.clone(), true),
                }
            }
            whole => (review.input.clone(), whole.is_some() || was_shortened(&review.input)),
        };
        let is_cut = review.whole.is_some() || is_lost;
        let diff = if open && !is_lost { self.review_diff(review, &input).await } else { None };
        Ok(Question { diff, is_cut, is_lost, seen: code(review.whole.as_ref().unwrap_or(&review.bind)), input })
    }

    /// Answers for a person who was shown the question: a yes to one that its record cuts short names what its whole was shown with.
    pub async fn answer_shown(
        &self,
        id: ReviewId,
        reply: Reply,
        by: &str,
        reason: Option<String>,
        seen: Option<&str>,
    ) -> Result<Review, Stop> {
        if matches!(reply, Reply::Once { .. } | Reply::Wide { .. }) {
            let question = self.question(&self.ledger.review(id)?).await?;
            if question.is_cut && seen != Some(question.seen.as_str()) {
                return Err(Refusal::new(Code::WrongState, format!("{id} was not shown whole, and a yes covers all of it"))
                    .remedy(world::Remedy::ShowReview { review: id })
                    .into());
            }
        }
        self.answer(id, reply, by, reason).await
    }

    /// Answers a question, and lets the queue look who can go on.
    pub async fn answer(&self, id: ReviewId, reply: Reply, by: &str, reason: Option<String>) -> Result<Review, Stop> {
        let review = self.ledger.answer(id, reply, by, reason).await?;
        self.tasks.wake();
        Ok(review)
    }
}

/// A record of an earlier version says only in its text that it is not all.
fn was_shortened(input: &Value) -> bool {
    match input {
        Value::String(text) => text.len() > gate::KEPT_CHARS && text.ends_with(" bytes in all]"),
        Value::Array(items) => items.iter().any(was_shortened),
        Value::Object(fields) => fields.values().any(was_shortened),
        _ => false,
    }
}
