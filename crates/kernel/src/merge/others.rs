//! Whose change it is that stands in the way of a task's: a conflict between two tasks names both.

use crate::Kernel;
use std::path::Path;
use workspace::{FrozenChanges, MergePlan};
use world::{Merge, Stop, Task};

/// Adds to the reason of each conflict which other task put there what the project holds now.
pub(super) fn name(kernel: &Kernel, task: &Task, looked: &mut FrozenChanges) -> Result<(), Stop> {
    if looked.conflicts.is_empty() {
        return Ok(());
    }
    let merges: Vec<Merge> = kernel.ledger.look(|world| {
        let of_zone = |merge: &&Merge| world.tasks.get(&merge.task).is_some_and(|other| other.zone == task.zone);
        world.merges.values().rev().filter(|merge| merge.task != task.id && merge.is_in_tree()).filter(of_zone).cloned().collect()
    });
    for merge in merges {
        let Some(bytes) = merge.snapshot.as_deref().map(|blob| kernel.ledger.blob_if_kept(blob)).transpose()?.flatten() else { continue };
        let plan = MergePlan::parse(&bytes)?;
        for conflict in looked.conflicts.iter_mut().filter(|conflict| !conflict.why.contains(" merged it")) {
            let is_theirs = plan.steps.iter().any(|step| {
                Path::new(&step.path.path) == Path::new(&conflict.path)
                    && Some(&step.after.plain()) == conflict.mine.as_ref().map(workspace::State::plain).as_ref()
            });
            if is_theirs {
                conflict.why = format!("{} ({} merged it, and {} changed it too)", conflict.why, merge.task, task.id);
            }
        }
    }
    Ok(())
}
