//! The door as a vendor's client's part of the kernel knows it.

use crate::{Kernel, call};
use agent::{CallDoor, DoorFuture};
use gate::{CallOutcome, PERSON_ASK, Request};
use ledger::Ledger;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;
use tree::Tree;
use world::{CallId, Fault, ReviewId, ReviewState, Stop, TaskId};

impl CallDoor for Kernel {
    fn call<'a>(&'a self, request: &'a Request) -> DoorFuture<'a, Result<CallOutcome, Fault>> {
        call::run(self, request)
    }

    fn ask_person<'a>(&'a self, request: &'a Request) -> DoorFuture<'a, Result<CallOutcome, Stop>> {
        // Who says yes without a word has said that.
        let answer = async { Ok(json!({ "answer": newest_answer(&self.ledger, request).unwrap_or_else(|| "yes".to_owned()) })) };
        Box::pin(call::run_syscall(self, request, answer))
    }

    fn report<'a>(&'a self, call: CallId, ok: bool, text: &'a str) -> DoorFuture<'a, Result<(), Fault>> {
        Box::pin(self.gate.report(call, ok, text))
    }

    fn await_review(&self, task: TaskId, review: ReviewId) {
        self.tasks.await_review(task, review);
    }

    fn questions_of(&self, task: TaskId) -> UnboundedReceiver<ReviewId> {
        self.tasks.questions_of(task)
    }

    fn tree(&self) -> Option<Arc<Tree>> {
        Some(self.tree.clone())
    }

    fn is_test_first(&self, task: TaskId) -> bool {
        self.ledger.look_at_task(task, |task| task.workflow.is_some()).unwrap_or(false)
    }

    fn is_stopping(&self) -> bool {
        self.instance.stopping()
    }
}

/// What a person said last to this very question.
fn newest_answer(ledger: &Ledger, request: &Request) -> Option<String> {
    // As the record has it.
    let mut asked = request.input.clone();
    ledger.redactor.value(&mut asked);
    gate::shorten(&mut asked);
    ledger.look(|world| {
        let same =
            world.reviews.values().filter(|review| review.task == request.task && review.tool == PERSON_ASK && review.input == asked);
        let answered = same.filter_map(|review| match &review.state {
            ReviewState::Answered { reason, .. } => Some((review.id, reason.clone())),
            _ => None,
        });
        answered.max_by_key(|(id, _)| *id).and_then(|(_, reason)| reason)
    })
}
