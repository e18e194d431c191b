//! Taking a merge back by the snapshot before it.
//!
//! **Invariant.** It happens once; a path that somebody edited since stays as it is and is named. A boot finishes what a crash interrupted.

use super::apply::{self, Plan};
use super::tree::State;
use super::{caller, facts};
use crate::Kernel;
use crate::fault::{Fault, FaultKind, Stop};
use policy::{RealPath, Standing, Verdict};
use std::sync::Arc;
use world::event::{MergeUndoBegun, MergeUndone};
use world::{Code, Merge, MergeId, MergePath, MergeState, Refusal, Task, TaskId};

/// One merge, as lists show it.
#[derive(Debug, Clone)]
pub struct MergeLine {
    pub merge: MergeId,
    pub task: TaskId,
    pub state: MergeState,
    pub digest: String,
    pub summary: String,
    /// Paths that go or went in, and those that stay out.
    pub files: usize,
    pub left: usize,
}

impl Kernel {
    /// Every merge that is remembered, oldest first.
    pub fn merges(&self) -> Result<Vec<MergeLine>, Stop> {
        let found: Vec<Merge> = self.ledger.look(|world| world.merges.values().cloned().collect());
        let line = |merge: Merge| {
            let frozen = super::Frozen::load(self, &merge.frozen)?;
            let (left, going): (Vec<_>, Vec<_>) = frozen.paths().into_iter().partition(|path| path.refused.is_some());
            Ok(MergeLine {
                merge: merge.id,
                task: merge.task,
                state: merge.state,
                digest: merge.digest,
                summary: frozen.summary,
                files: going.len(),
                left: left.len(),
            })
        };
        found.into_iter().map(line).collect()
    }

    /// Takes a task's merge back and tells what became of each path.
    pub async fn undo(&self, id: TaskId, by: &str) -> Result<Vec<MergePath>, Stop> {
        let task = self.task(id)?;
        let refuse = |why: String| Refusal::new(Code::WrongState, why).hint("`skep merge list` shows what was merged");
        let merge = task.merge.and_then(|merge| self.ledger.look(|world| world.merges.get(&merge).cloned()));
        let merge = merge.ok_or_else(|| refuse(format!("{id} has merged nothing")))?;
        let snapshot = merge.snapshot.ok_or_else(|| refuse(format!("{id} has merged nothing")))?;
        let plan = Plan::load(self, &snapshot)?;
        self.may_undo(&task, &plan)?;
        let pending = self.ledger.commit(|world, _| match world.merges.get(&merge.id).map(|merge| merge.state) {
            Some(MergeState::Applied) => {
                (vec![MergeUndoBegun { pid: task.pid, task: Some(id), merge: merge.id, by: by.to_owned() }.into()], Ok(()))
            }
            Some(MergeState::Undone) => (Vec::new(), Err(refuse(format!("{id} was taken back already")))),
            Some(MergeState::Undoing) => (Vec::new(), Err(refuse(format!("{id} is being taken back")))),
            _ => (Vec::new(), Err(refuse(format!("{id} has merged nothing")))),
        })?;
        pending.durable().await??;
        undo_rest(self, &task, merge.id, &plan).await
    }

    /// A way back into the project is a merge like the way there. The operator's command answers a question; a denial stays one.
    fn may_undo(&self, task: &Task, plan: &Plan) -> Result<(), Stop> {
        let trusted =
            self.trusted(task.zone)?.ok_or_else(|| Fault::new(FaultKind::Bug, "the zone lost its policy", "no version is in force"))?;
        let (name, role, user) = caller(self, task);
        let judge = |tool: &str, paths: &[RealPath<'_>]| {
            let facts = facts(tool, task, paths, &name, &role, &user);
            match policy::decide(&trusted.policy, &facts, &Standing { grant: None, calls_left: None }) {
                Verdict::Deny { refusal, .. } => Err(refusal),
                Verdict::Allow(_) | Verdict::Review { .. } => Ok(()),
            }
        };
        let paths: Vec<RealPath<'_>> = plan.steps.iter().map(|step| RealPath::Inside(&step.path.path)).collect();
        judge(super::APPLY, &paths)?;
        for (step, path) in plan.steps.iter().zip(&paths) {
            judge(if step.before == State::Absent { "fs.delete" } else { "fs.write" }, std::slice::from_ref(path))?;
        }
        Ok(())
    }
}

async fn undo_rest(kernel: &Kernel, task: &Task, merge: MergeId, plan: &Plan) -> Result<Vec<MergePath>, Stop> {
    let paths = apply::back(kernel, task, plan)?;
    kernel.ledger.record(MergeUndone { pid: task.pid, task: Some(task.id), merge, paths: paths.clone() }).await?;
    Ok(paths)
}

/// Finishes what an earlier kernel began to take back.
pub(crate) async fn finish_undone(kernel: Arc<Kernel>) {
    let begun: Vec<Merge> =
        kernel.ledger.look(|world| world.merges.values().filter(|merge| merge.state == MergeState::Undoing).cloned().collect());
    for merge in begun {
        let done = async {
            let snapshot = merge.snapshot.ok_or_else(|| Fault::new(FaultKind::Bug, "a merge has no log", merge.id))?;
            undo_rest(&kernel, &kernel.task(merge.task)?, merge.id, &Plan::load(&kernel, &snapshot)?).await
        };
        if let Err(stop) = done.await {
            eprintln!("skep: {} is not taken back yet: {stop}", merge.id);
        }
    }
}
