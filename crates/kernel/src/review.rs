//! Questions to a person are state, not held futures: they outlive callers and kernels, and an answer is a one-use grant.

use crate::Kernel;
use crate::fault::Stop;
use world::event::{GrantGiven, ProcResumed, ReviewAnswered};
use world::{Answer, Code, Event, ProcessState, Refusal, Review, ReviewId, ReviewState, World, limits};

impl Kernel {
    /// Answers a question. One answer counts; a yes leaves a grant for exactly the call that was asked about.
    pub async fn answer(&self, id: ReviewId, answer: Answer, by: &str, reason: Option<String>) -> Result<Review, Stop> {
        let pending = self.ledger.commit(|world, _| match answerable(world, id) {
            Ok(review) => (answered(world, review, answer, by, reason), Ok(())),
            Err(refusal) => (Vec::new(), Err(refusal)),
        })?;
        pending.durable().await??;
        self.ready.notify_one();
        self.review(id)
    }

    pub fn review(&self, id: ReviewId) -> Result<Review, Stop> {
        self.ledger.look(|world| world.reviews.get(&id).cloned()).ok_or_else(|| unknown(id).into())
    }
}

fn unknown(id: ReviewId) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no review `{id}`")).hint("`skep review list --all` shows them")
}

fn answerable(world: &World, id: ReviewId) -> Result<&Review, Refusal> {
    let review = world.reviews.get(&id).ok_or_else(|| unknown(id))?;
    match &review.state {
        ReviewState::Open => Ok(review),
        ReviewState::Answered { by, .. } => Err(Refusal::new(Code::WrongState, format!("{id} was answered by {by}"))),
        ReviewState::Void => Err(Refusal::new(Code::WrongState, format!("{id} is void: its task has ended"))),
    }
}

fn answered(world: &World, review: &Review, answer: Answer, by: &str, reason: Option<String>) -> Vec<Event> {
    let (pid, task) = (review.pid, review.task);
    let mut events: Vec<Event> = vec![ReviewAnswered { pid, task, review: review.id, answer, by: by.to_owned(), reason }.into()];
    if answer == Answer::Allow {
        let (tool, bind) = (review.tool.clone(), review.bind.clone());
        events.push(GrantGiven { pid, task, grant: world.next_grant(), tool, bind, uses: 1, review: review.id }.into());
    }
    // A process that paused over too many questions goes on once they are fewer.
    let paused = world.processes.get(&pid).is_some_and(|process| process.state == ProcessState::Paused);
    if paused && world.open_reviews(pid) <= limits::REVIEWS_OPEN_MAX {
        events.push(ProcResumed { pid, task: None, by: by.to_owned() }.into());
    }
    events
}
