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
    if task.session
        && let Some(step) = of_session(task, &take)
    {
        return Some(step);
    }
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
        (TaskStatus::Done, ..) if is_kept && task.session => take,
        _ if is_kept => format!("{take}, or skep say {id} \"…\""),
        (TaskStatus::Done, ..) => return None,
        (TaskStatus::Cancelled, ..) => format!("skep log {id} tells what it did"),
    })
}

/// What is another for a session: nobody talks with one, and one that failed stays failed.
fn of_session(task: &TaskView, take: &str) -> Option<String> {
    let (id, is_kept) = (task.task, task.kept.is_some());
    let fork = format!("skep session replay {id} --fork STEP goes on from a step");
    Some(match task.state {
        _ if task.merge == Some(MergeState::Applying) => return None,
        TaskStatus::Queued | TaskStatus::Running => format!("skep session watch {id}, or skep session abort {id}"),
        // A larger budget is given by what has it go on.
        TaskStatus::Stopped => match task.remedy.as_deref() {
            Some(Remedy::LargerTaskBudget { .. }) => return None,
            Some(remedy) => format!("{}, then skep session resume {id}", remedy::next_step(remedy)),
            None => format!("skep session resume {id}"),
        },
        TaskStatus::Failed if is_kept => format!("{take}; or {fork}"),
        TaskStatus::Failed => format!("skep log {id} tells what it did; {fork}"),
        TaskStatus::Cancelled if is_kept => format!("skep session resume {id}; or {take}"),
        TaskStatus::Cancelled => format!("skep session resume {id}"),
        TaskStatus::Parked | TaskStatus::Done => return None,
    })
}

/// Twice the money that a task was given, in millionths of a dollar, and a dollar at least: it has spent nearly all of it, and the rest of
/// its work may take as much.
fn twice(task: &TaskView) -> u64 {
    task.budget.as_ref().and_then(|budget| budget.micros).unwrap_or_default().saturating_mul(2).max(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::task::tests::task;
    use wire::method::task::KeptView;

    #[test]
    fn every_open_task_has_a_next_step() {
        let step = |state, merge| next_step(&TaskView { merge, ..task(7, state) });
        assert_eq!(step(TaskStatus::Running, None).unwrap(), "skep watch task-7");
        assert_eq!(step(TaskStatus::Parked, None).unwrap(), "skep review show r-3, then skep review allow r-3 or deny r-3");
        assert_eq!(step(TaskStatus::Parked, Some(MergeState::Proposed)).unwrap(), "skep diff task-7, then skep merge task-7");
        assert_eq!(step(TaskStatus::Failed, None).unwrap(), "skep log task-7 tells what it did; skep retry task-7");
        assert_eq!(step(TaskStatus::Done, None), None);
    }

    #[test]
    fn a_session_is_offered_what_it_does_not_refuse() {
        let kept = || Some(KeptView { files: 1, bytes: 3, left: 0, since_ms: 0, until_ms: None });
        let take = "skep diff task-7, then skep merge task-7";
        let step = |state, kept| next_step(&TaskView { kept, session: true, ..task(7, state) });
        assert_eq!(step(TaskStatus::Queued, None).unwrap(), "skep session watch task-7, or skep session abort task-7");
        assert_eq!(step(TaskStatus::Stopped, None).unwrap(), "skep session resume task-7");
        let fork = "skep session replay task-7 --fork STEP goes on from a step";
        assert_eq!(step(TaskStatus::Failed, None).unwrap(), format!("skep log task-7 tells what it did; {fork}"));
        assert_eq!(step(TaskStatus::Failed, kept()).unwrap(), format!("{take}; or {fork}"));
        assert_eq!(step(TaskStatus::Cancelled, None).unwrap(), "skep session resume task-7");
        assert_eq!(step(TaskStatus::Cancelled, kept()).unwrap(), format!("skep session resume task-7; or {take}"));
        assert_eq!(step(TaskStatus::Done, kept()).unwrap(), take);
        assert_eq!(step(TaskStatus::Done, None), None);
        // A larger budget has it go on by itself, and what else helps comes first.
        let stopped = |remedy| TaskView { remedy: Some(Box::new(remedy)), session: true, ..task(7, TaskStatus::Stopped) };
        let larger = Remedy::LargerTaskBudget { task: Some(wire::TaskId(7)), micros: 2_000_000 };
        assert_eq!(next_step(&stopped(larger)).unwrap(), "skep retry task-7 --budget 2");
        let other = next_step(&stopped(Remedy::SetUpModel)).unwrap();
        assert!(other.ends_with(", then skep session resume task-7"), "{other}");
        // The control: a brain hears more, and goes on where it failed.
        assert_eq!(next_step(&TaskView { kept: kept(), ..task(7, TaskStatus::Failed) }).unwrap(), format!("skep retry task-7; or {take}"));
        assert!(next_step(&TaskView { kept: kept(), ..task(7, TaskStatus::Done) }).unwrap().contains("skep say task-7"));
    }
}
