//! Calls that a brain makes with its own hands: asked at the door before, and reported on after.
//!
//! **Invariant.** Each call that was admitted is settled once: by the brain's word, or as unreported when the brain stops.

use super::ask;
use crate::Kernel;
use brain::{BrainInput, OwnCallId, ToolCall};
use gate::CallEnd;
use std::collections::BTreeMap;
use world::{CallId, Fault, FaultKind, Hands, Refusal, ReviewId, Stop, Task};

/// What comes of such a call's question.
pub(crate) struct OwnAnswer {
    /// What the brain hears, where it goes on.
    pub heard: BrainInput,
    /// The question that a person must answer first.
    pub review: Option<ReviewId>,
}

/// The open calls that a brain makes with its own hands.
#[derive(Default)]
pub(crate) struct OwnCalls(BTreeMap<OwnCallId, CallId>);

impl OwnCalls {
    /// Takes a call that the brain wants to make itself through the door. From a yes on it is open.
    pub async fn ask(&mut self, kernel: &Kernel, task: &Task, id: OwnCallId, call: ToolCall) -> Result<OwnAnswer, Stop> {
        let outcome = ask(kernel, task, call, Hands::Caller).await?;
        Ok(match outcome.end {
            CallEnd::Refused(refusal) => OwnAnswer { heard: refused(id, refusal), review: None },
            CallEnd::Pending(refusal) => OwnAnswer { review: refusal.review, heard: refused(id, refusal) },
            CallEnd::CallerExecutes | CallEnd::Done { .. } => {
                self.0.extend(outcome.call.map(|call| (id, call)));
                OwnAnswer { heard: BrainInput::OwnCallAllowed(id), review: None }
            }
        })
    }

    /// Two open calls of one id could not be told apart when one is reported.
    pub fn check_free(&self, id: OwnCallId) -> Result<(), Fault> {
        if self.0.contains_key(&id) {
            return Err(Fault::new(FaultKind::Brain, "the brain used an id twice", format!("its own call {} is open", id.0)));
        }
        Ok(())
    }

    /// Takes the brain's word for how a call went. A report on a call that is not open is ignored.
    pub async fn report(&mut self, kernel: &Kernel, id: OwnCallId, ok: bool, text: &str) -> Result<(), Fault> {
        match self.0.remove(&id) {
            Some(call) => kernel.gate.report(call, ok, text).await,
            None => Ok(()),
        }
    }

    /// Ends what the brain did not report on before it stopped.
    pub async fn close(&mut self, kernel: &Kernel) -> Result<(), Fault> {
        while let Some((_, call)) = self.0.pop_first() {
            kernel.gate.report(call, false, "unreported").await?;
        }
        Ok(())
    }
}

fn refused(id: OwnCallId, refusal: Refusal) -> BrainInput {
    BrainInput::OwnCallRefused { id, hint: refusal.advice(), reason: refusal.reason }
}
