//! One request to a model outside every project: on the operator's behalf, to see that it answers and what that costs, or for a process that decides.
//!
//! It passes the gate, is reserved, metered and recorded as every request is.

use crate::Models;
use brain::SingleQuestion;
use brain::model::Purpose;
use journal::Filter;
use ledger::event_of;
use std::sync::Arc;
use std::time::Instant;
use world::{Event, Fault, FaultKind, Pid, Stop, UsageTotals, ZoneId};

/// Tokens and bytes of an answer that decides something.
const DECISION_TOKENS: u64 = 1_000;
const DECISION_BYTES_MAX: usize = 16 * 1024;

/// What a model said when it was tried.
#[derive(Clone, Debug)]
pub struct ModelTrial {
    pub provider: String,
    pub model: String,
    pub answer: String,
    pub ms: u64,
    /// What it used, as it is on record; `None` where nothing of it is.
    pub usage: Option<UsageTotals>,
}

impl Models {
    /// Asks the model of this name for one word.
    pub async fn try_model(self: &Arc<Self>, name: &str) -> Result<ModelTrial, Stop> {
        let work = self.model_card(None, name)?;
        let target = self.gateway().find(&Default::default(), name, work.dialect, None).ok().and_then(|found| found.into_iter().next());
        let (provider, model) = target.map(|target| (target.provider.name.clone(), target.model)).unwrap_or_default();
        let before = self.ledger.journal().head().seq;
        let asked = Instant::now();
        let answered = brain::try_model(&self.gateway_model(Pid::OPERATOR, ZoneId::NONE, work.clone(), work)?).await;
        let ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
        let answer = answered.map_err(|fault| {
            let (fix, what) = (fault.hint.clone(), format!("`{provider}/{model}` gives no answer"));
            Fault { fix, ..Fault::new(FaultKind::Brain, what, &fault) }
        })?;
        Ok(ModelTrial { provider, model, answer, ms, usage: self.used_since(before)? })
    }

    /// Asks the model of this name once for a process that works on no project.
    pub async fn ask_for(self: &Arc<Self>, pid: Pid, name: &str, system: &str, user: &str) -> Result<String, Stop> {
        let work = self.model_card(None, name)?;
        let model = self.gateway_model(pid, ZoneId::NONE, work.clone(), work)?;
        let (output_tokens, answer_bytes_max) = (DECISION_TOKENS, DECISION_BYTES_MAX);
        let question = SingleQuestion { purpose: Purpose::Work, system, user, tools: &[], output_tokens, answer_bytes_max };
        let answered = brain::ask_once(&model, &question).await;
        Ok(answered.map_err(|failure| Fault::new(FaultKind::Brain, format!("`{name}` gives no answer"), &failure.fault))?.text)
    }

    /// What the operator's own last request used.
    fn used_since(&self, after: u64) -> Result<Option<UsageTotals>, Fault> {
        let (kinds, pid) = (vec!["model.used".to_owned()], Some(Pid::OPERATOR.0));
        let found = self.ledger.read(&Filter { kinds, pid, after_seq: Some(after), reverse: true, limit: Some(1), ..Filter::default() })?;
        Ok(match found.first().map(event_of).transpose()? {
            Some(Event::ModelUsed(used)) => Some(used.figures),
            _ => None,
        })
    }
}
