//! What a person does about a task next.

use crate::remedy;
use wire::method::task::{TaskStatus, TaskView};
use wire::{MergeState, Remedy};

/// What a person does about a task next.
pub fn next_step(task: &TaskView) -> Option<String> {
    let (id, is_kept) = (task.task, task.kept.is_some());
    if let Some(wait) = &task.waits {
        return Some(remedy::next_step(&wait.remedy));
    }
    let take = format!("skep diff {id}, then skep merge {id}");
    Some(match (task.state, task.merge, task.review) {
        (_, Some(MergeState::Applying), _) | (TaskStatus::Queued | TaskStatus::Running, ..) => format!("skep watch {id}"),
        (TaskStatus::Parked, Some(MergeState::Proposed), _) => take,
        (TaskStatus::Parked, _, Some(review)) => format!("skep review show {review}, then skep review allow {review} or deny {review}"),
        (TaskStatus::Parked, _, None) => "skep review".to_owned(),
        (TaskStatus::Stopped, ..) => match task.remedy.as_deref() {
            Some(Remedy::LargerTaskBudget { micros, .. }) => {
                format!("skep retry {id} --budget {}", remedy::whole_cents(twice(task).max(*micros)))
            }
            Some(remedy) => format!("{}, then skep retry {id}", remedy::next_step(remedy)),
            None => format!("skep retry {id}"),
        },
        (TaskStatus::Done, Some(MergeState::Applied), _) if is_kept => format!("{take}; or skep merge undo {id}"),
        (TaskStatus::Done, Some(MergeState::Applied), _) => format!("skep merge undo {id} takes it back"),
        (TaskStatus::Failed, ..) if is_kept => format!("skep retry {id}; or {take}"),
        (TaskStatus::Failed, ..) => format!("skep log {id} tells what it did; skep retry {id}"),
        _ if is_kept => format!("{take}, or skep say {id} \"…\""),
        (TaskStatus::Done, ..) => return None,
        (TaskStatus::Cancelled, ..) => format!("skep log {id} tells what it did"),
    })
}

/// Twice the money that a task was given, in millionths of a dollar, and a dollar at least: it has spent nearly all of it, and the rest of
/// its work may take as much.
fn twice(task: &TaskView) -> u64 {
    task.budget.as_ref().and_then(|budget| budget.micros).unwrap_or_default().saturating_mul(2).max(1_000_000)
}
