//! Questions to a model that are made again when they fail for a while: those of planners, of the model critic and of summaries.
//!
//! **Invariant.** Each request is a call of the session's process, paid from its budget. A question ends within its patience.

use crate::planner::PlannerFault;
use crate::work::SessionWork;
use brain::model::{Model, RetryClass};
use brain::{QuestionFailure, SingleAnswer, SingleQuestion, ask_once};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use world::event::BrainSaid;
use world::{Code, Refusal, RetryCause};

/// How long and how often a question is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskingPatience {
    pub tries_max: u32,
    pub delay_min: Duration,
    pub delay_max: Duration,
    /// All tries together. What a person is asked meanwhile is not among them: the session parks.
    pub whole: Duration,
}

impl Default for AskingPatience {
    fn default() -> AskingPatience {
        AskingPatience {
            tries_max: 6,
            delay_min: Duration::from_millis(500),
            delay_max: Duration::from_secs(15),
            whole: Duration::from_secs(600),
        }
    }
}

impl AskingPatience {
    /// How long to wait before the next try: twice as long each time, and never the same for two sessions that failed together. `chance` is below 1000.
    fn delay(&self, tries: u32, chance: u64) -> Duration {
        let base = self.delay_min.saturating_mul(1_u32.checked_shl(tries).unwrap_or(u32::MAX)).min(self.delay_max);
        (base * (500 + chance.min(999) as u32) / 1000 * 3 / 2).clamp(self.delay_min, self.delay_max)
    }
}

/// Asks a model for the session. Who reads its journal is told of what fails more than once.
pub(crate) async fn ask_model(work: &SessionWork, model: &dyn Model, question: &SingleQuestion<'_>) -> Result<SingleAnswer, PlannerFault> {
    let say = |text: String| {
        let (pid, task, ledger) = (work.pid, Some(work.id), work.host.ledger());
        let text = ledger.redactor.text(&text).into_owned();
        if let Err(fault) = ledger.progress(pid, task, BrainSaid { pid, task, text }) {
            world::log!("skep: what {} said was not recorded: {fault}", work.id);
        }
    };
    let exhausted = async {
        work.host.models().exhaustion.lasts(work.id).await;
        let refusal = work.host.models().exhaustion.take(work.id);
        refusal.unwrap_or_else(|| Refusal::new(Code::Exhausted, "its budget is used up"))
    };
    let patience = AskingPatience::default();
    tokio::select! {
        answer = ask_patiently(model, question, &patience, &say) => answer,
        refusal = exhausted => Err(PlannerFault::Stop(refusal.into())),
    }
}

/// The same with this patience.
pub(crate) async fn ask_patiently(
    model: &dyn Model,
    question: &SingleQuestion<'_>,
    patience: &AskingPatience,
    say: &(dyn Fn(String) + Sync),
) -> Result<SingleAnswer, PlannerFault> {
    let tries = async {
        let mut tries = 0;
        loop {
            let QuestionFailure { fault, retry_after } = match ask_once(model, question).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            match fault.retry {
                RetryClass::NeedsReview(review) => return Err(PlannerFault::Asked(review)),
                // It waited long for more of a budget, and goes on waiting.
                RetryClass::Waiting => say(format!("waiting: {}", fault.what)),
                RetryClass::Transient if tries < patience.tries_max => {
                    if tries > 0 {
                        say(format!("{}; asking again, {} of {}", fault.what, tries + 1, patience.tries_max));
                    }
                    let chance = RandomState::new().hash_one(tries) % 1000;
                    tokio::time::sleep(patience.delay(tries, chance).max(retry_after.min(patience.delay_max))).await;
                    tries += 1;
                }
                RetryClass::Transient => {
                    let reason = with_hint(format!("{}, {} times in a row", fault.what, tries + 1), fault.hint);
                    return Err(PlannerFault::Stopped { reason, cause: RetryCause::Model });
                }
                RetryClass::Blocked(RetryCause::Budget) => {
                    return Err(PlannerFault::Stop(Refusal::new(Code::Exhausted, fault.what).into()));
                }
                RetryClass::Blocked(cause) => return Err(PlannerFault::Stopped { reason: with_hint(fault.what, fault.hint), cause }),
                RetryClass::Final => return Err(PlannerFault::Failed(with_hint(fault.what, fault.hint))),
            }
        }
    };
    match tokio::time::timeout(patience.whole, tries).await {
        Ok(end) => end,
        Err(_) => {
            let reason = format!("the model gave no answer within {} ms", patience.whole.as_millis());
            Err(PlannerFault::Stopped { reason, cause: RetryCause::Time })
        }
    }
}

fn with_hint(what: String, hint: Option<String>) -> String {
    match hint {
        Some(hint) => format!("{what} ({hint})"),
        None => what,
    }
}

#[cfg(test)]
mod tests;
