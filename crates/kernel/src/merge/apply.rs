//! Carries a merge out, and back, by a log that was kept before the first step.
//!
//! Many paths go together: all new contents are written beside their places, made durable at once, and then put in place one after the
//! other.
//!
//! **Invariant.** A path is touched only while it still holds what the log says it held; one that holds its new content already is done.
//! So a retry after a crash finishes exactly the rest, in both directions, and nothing that a person wrote meanwhile is overwritten.

use super::frozen::Frozen;
use super::place::{Half, Moment};
use super::tree::{State, Tree};
use crate::Kernel;
use crate::fault::{Fault, FaultKind, Stop};
use serde::{Deserialize, Serialize};
use std::path::Path;
use world::{MergePath, Task};

/// Paths that are made durable together; what they hold lies twice on the disk meanwhile.
const TOGETHER: usize = 1000;

/// The log of one merge, and the snapshot before it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub steps: Vec<Step>,
    /// Left out, and why.
    pub left: Vec<MergePath>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Step {
    pub path: MergePath,
    pub before: State,
    pub after: State,
    /// The other half of a rename, which is told with the first.
    pub quiet: bool,
}

impl Plan {
    pub fn of(frozen: &Frozen) -> Plan {
        let mut steps: Vec<Step> = Vec::new();
        for change in &frozen.changes {
            let quiet = change.to.is_some();
            steps.push(Step { path: change.told(), before: change.old.clone(), after: change.new.clone(), quiet });
        }
        Plan { steps, left: frozen.refused.clone() }
    }

    pub fn store(&self, kernel: &Kernel) -> Result<String, Fault> {
        let bytes = serde_json::to_vec(self).map_err(|error| Fault::new(FaultKind::Bug, "a merge's log cannot be written", error))?;
        kernel.ledger.keep(&bytes)
    }

    pub fn load(kernel: &Kernel, blob: &str) -> Result<Plan, Fault> {
        serde_json::from_slice(&kernel.ledger.blob(blob)?)
            .map_err(|error| Fault::new(FaultKind::Bug, "a merge's log cannot be read", error))
    }
}

/// Goes on from wherever the merge stands, and tells what became of each path.
pub(super) fn forth(kernel: &Kernel, task: &Task, plan: &Plan) -> Result<Vec<MergePath>, Stop> {
    let mut told = plan.left.clone();
    let steps = plan.steps.iter().map(|step| (step, &step.before, &step.after));
    run(kernel, task, "merge", steps, &mut told)?;
    Ok(told)
}

/// The same way back, last step first.
pub(super) fn back(kernel: &Kernel, task: &Task, plan: &Plan) -> Result<Vec<MergePath>, Stop> {
    let mut told = Vec::new();
    let steps = plan.steps.iter().rev().map(|step| (step, &step.after, &step.before));
    run(kernel, task, "undo", steps, &mut told)?;
    Ok(told)
}

fn run<'a>(
    kernel: &Kernel,
    task: &Task,
    point: &str,
    steps: impl Iterator<Item = (&'a Step, &'a State, &'a State)>,
    told: &mut Vec<MergePath>,
) -> Result<(), Stop> {
    let tree = Tree::of(kernel, task)?;
    let steps: Vec<_> = steps.enumerate().collect();
    for some in steps.chunks(TOGETHER) {
        let at = |number: usize| move |moment: Moment| kernel.fault_at(point, number as u64 * 3 + moment as u64);
        let mut halves = Vec::with_capacity(some.len());
        for (number, (step, from, to)) in some {
            halves.push(tree.begin(kernel, &step.path.path, from, to, at(*number))?);
        }
        let written = some.iter().zip(&halves).filter(|(_, half)| matches!(half, Half::Written));
        tree.sync_written(&written.map(|((_, (step, ..)), _)| step.path.path.as_str()).collect::<Vec<_>>())?;
        for ((number, (step, from, _)), half) in some.iter().zip(halves) {
            let refused = match half {
                Half::Done => None,
                Half::Left(why) => Some(why),
                Half::Written => tree.end(&step.path.path, from, at(*number))?,
            };
            if refused.is_some() || !step.quiet {
                told.push(MergePath { refused, ..step.path.clone() });
            }
        }
        tree.sync_folders(&some.iter().filter_map(|(_, (step, ..))| Path::new(&step.path.path).parent()).collect())?;
    }
    Ok(())
}
