//! Questions of a client, each as the calls that it means: decided one after the other, and answered when all are.
//!
//! **Invariant.** A question is answered with yes only when every one of its calls was admitted; one refusal refuses all of it, and what was
//! admitted before is told as not done.

use super::{AgentAnswer, AgentEvent};
use crate::{OwnCallId, ToolCall};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The questions of one client, and what became of what they were about. `Q` is what a wire needs to answer one.
#[derive(Debug)]
pub(super) struct Approvals<Q> {
    next: u64,
    waiting: Vec<Approval<Q>>,
    /// What was admitted and has not ended, by the client's own name for it.
    open: BTreeMap<String, Vec<OwnCallId>>,
    refused: BTreeSet<String>,
}

/// One question.
#[derive(Debug)]
pub(super) struct Approval<Q> {
    pub question: Q,
    /// What it is about, by the client's own name.
    item: String,
    /// Calls that are not asked about yet.
    left: VecDeque<ToolCall>,
    asked: OwnCallId,
    admitted: Vec<OwnCallId>,
}

/// What follows from an answer.
pub(super) enum Decided<Q> {
    /// The next call of the same question.
    Further(AgentEvent),
    Allowed(Approval<Q>),
    Refused {
        approval: Approval<Q>,
        why: String,
    },
}

impl<Q> Default for Approvals<Q> {
    fn default() -> Approvals<Q> {
        Approvals { next: 0, waiting: Vec::new(), open: BTreeMap::new(), refused: BTreeSet::new() }
    }
}

impl<Q> Approvals<Q> {
    /// Takes a question down and asks about its first call.
    pub fn ask(&mut self, item: String, first: ToolCall, left: VecDeque<ToolCall>, question: Q) -> AgentEvent {
        let asked = self.next_id();
        self.waiting.push(Approval { question, item, left, asked, admitted: Vec::new() });
        AgentEvent::Asked { id: asked, call: first }
    }

    fn next_id(&mut self) -> OwnCallId {
        self.next += 1;
        OwnCallId(self.next)
    }

    /// What the kernel's word on a call means for its question; `None` where nobody asked.
    pub fn decide(&mut self, id: OwnCallId, answer: &AgentAnswer) -> Option<Decided<Q>> {
        let at = self.waiting.iter().position(|approval| approval.asked == id)?;
        if let AgentAnswer::Refused(why) = answer {
            return Some(Decided::Refused { approval: self.waiting.remove(at), why: why.clone() });
        }
        self.waiting[at].admitted.push(id);
        let Some(call) = self.waiting[at].left.pop_front() else { return Some(Decided::Allowed(self.waiting.remove(at))) };
        let id = self.next_id();
        self.waiting[at].asked = id;
        Some(Decided::Further(AgentEvent::Asked { id, call }))
    }

    /// The client is told yes.
    pub fn open(&mut self, approval: &Approval<Q>) {
        self.open.entry(approval.item.clone()).or_default().extend(&approval.admitted);
    }

    /// The client is told no; gives the ends of what was admitted of it.
    pub fn refuse(&mut self, approval: &Approval<Q>) -> Vec<AgentEvent> {
        self.refused.insert(approval.item.clone());
        let text = "not done: another part of the same question was refused";
        approval.admitted.iter().map(|id| AgentEvent::Ended { id: *id, ok: false, text: text.to_owned() }).collect()
    }

    /// Lets go of all that wait.
    pub fn take_waiting(&mut self) -> Vec<Approval<Q>> {
        std::mem::take(&mut self.waiting)
    }

    pub fn is_waiting(&self, item: &str) -> bool {
        self.waiting.iter().any(|approval| approval.item == item)
    }

    pub fn is_open(&self, item: &str) -> bool {
        self.open.contains_key(item)
    }

    /// The ends of what was admitted of an item; `None` where nothing was.
    pub fn end(&mut self, item: &str, ok: bool, text: &str) -> Option<Vec<AgentEvent>> {
        let calls = self.open.remove(item)?;
        Some(calls.into_iter().map(|id| AgentEvent::Ended { id, ok, text: text.to_owned() }).collect())
    }

    pub fn is_refused(&self, item: &str) -> bool {
        self.refused.contains(item)
    }

    /// Nothing more is told of what was refused. Says whether it was.
    pub fn forget_refused(&mut self, item: &str) -> bool {
        self.refused.remove(item)
    }
}
