//! What a person said to a call is said again in its replay.
//!
//! **Invariant.** A yes counts for the very call it was given to, as often as it was given, with what it came with, and for nothing that
//! reaches beyond the workspace. It answers a question and never a no: policy, parents and bans are asked before.

use crate::call::Request;
use world::event::GrantGiven;
use world::{Answer, Code, Event, Refusal, Review, ReviewState, Scope, TaskId, Terms, What, World};

/// The grant that stands for the recorded yes, or why there is none. `then` is what the call was bound to in the task `of`, `bind` is it now.
pub(crate) fn answer(world: &World, request: &Request, of: TaskId, then: &str, bind: &str, stays_inside: bool) -> Result<Event, Refusal> {
    let asked = world.reviews.values().filter(|review| review.task == Some(of) && review.tool == request.tool && review.bind == then);
    let answered: Vec<(&Review, Answer)> = asked.filter_map(answered).collect();
    let exact = What::Exact { tool: request.tool.clone(), bind: bind.to_owned() };
    let given = world.grants.values().filter(|grant| grant.task == request.task && grant.what == exact).count();
    let lost = request.task.and_then(|task| world.tasks.get(&task)).is_some_and(|task| task.lost.iter().any(|lost| lost == bind));
    if lost {
        return Err(Refusal::new(Code::Denied, "this exact call was interrupted by a crash, and a replay asks nobody"));
    }
    match answered.iter().filter(|(_, answer)| *answer == Answer::Allow).nth(given) {
        Some((review, _)) if !stays_inside => {
            Err(Refusal::new(Code::Denied, format!("{} allowed it, and it reaches beyond a replay", review.id)))
        }
        Some((review, _)) => {
            let terms = Terms { uses_left: Some(1), constraints: review.constraints.clone(), ..Terms::default() };
            let (pid, task, by) = (request.pid, request.task, format!("the replay of {of}"));
            let scope = Scope::Process { pid };
            Ok(GrantGiven { pid, task, grant: world.next_grant(), scope, what: exact, terms, review: Some(review.id), by }.into())
        }
        None => Err(match answered.iter().find(|(_, answer)| *answer == Answer::Deny) {
            Some((review, _)) => Refusal::new(Code::Denied, format!("it was refused in {}", review.id)).hint("do it another way"),
            None => Refusal::new(Code::Denied, format!("a replay asks nobody, and nobody was asked this in {of}")),
        }),
    }
}

fn answered(review: &Review) -> Option<(&Review, Answer)> {
    match &review.state {
        ReviewState::Answered { answer, .. } => Some((review, *answer)),
        ReviewState::Open | ReviewState::Void => None,
    }
}
