//! What a client's part of the kernel asks of the rest: the door that every call passes, and who waits for a person's answer.

use gate::{CallOutcome, Request};
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;
use tree::Tree;
use world::{CallId, Fault, ReviewId, Stop, TaskId};

pub type DoorFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub trait CallDoor: Send + Sync {
    /// Carries one call from request to outcome.
    fn call<'a>(&'a self, request: &'a Request) -> DoorFuture<'a, Result<CallOutcome, Fault>>;

    /// Asks the person what the call's input says. It is a call that wants a review; once it is admitted, its result holds the answer.
    fn ask_person<'a>(&'a self, request: &'a Request) -> DoorFuture<'a, Result<CallOutcome, Stop>>;

    /// Settles a call that its caller made with its own hands, on the caller's word.
    fn report<'a>(&'a self, call: CallId, ok: bool, text: &'a str) -> DoorFuture<'a, Result<(), Fault>>;

    /// Tells the brain of a task that it cannot go on before a person has answered.
    fn await_review(&self, task: TaskId, review: ReviewId);

    /// Where the brain of a task hears of that.
    fn questions_of(&self, task: TaskId) -> UnboundedReceiver<ReviewId>;

    /// The process tree, which judges and records the calls of its processes itself.
    fn tree(&self) -> Option<Arc<Tree>>;

    /// Is this task held to tests first?
    fn is_test_first(&self, _task: TaskId) -> bool {
        false
    }

    /// Is the kernel on its way down?
    fn is_stopping(&self) -> bool;
}
