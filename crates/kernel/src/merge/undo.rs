//! Taking a merge back by the snapshot before it.
//!
//! **Invariant.** It happens once; a path that somebody edited since stays as it is and is named. A boot finishes what a crash interrupted.

use super::apply::{self, Plan};
use super::rights::Deed;
use super::tree::State;
use crate::Kernel;
use crate::call::judge::{self, Around, CallFacts, Details, Who};
use crate::fault::{Fault, FaultKind, Stop};
use crate::zone::Trusted;
use policy::{OwnedPath, Verdict};
use serde_json::json;
use std::sync::Arc;
use world::event::{MergeUndoBegun, MergeUndone};
use world::{Code, Merge, MergeId, MergePath, MergeState, Pid, Refusal, Task, TaskId, UsedRoom};

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
        self.may_undo(&task, &plan).await?;
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

    /// A way back into the project is a merge like the way there, and the operator's own call. The command answers a question.
    async fn may_undo(&self, task: &Task, plan: &Plan) -> Result<(), Stop> {
        let trusted = self.in_force(task.zone)?;
        let who = Who { pid: Pid::OPERATOR, zone: task.zone, task: None };
        let mut all = vec![whole(self, plan)?];
        for step in &plan.steps {
            // A file that gives its place back to a folder goes.
            let is_gone = matches!(step.before, State::Absent | State::Folder);
            let size = bytes(self, if is_gone { &step.after } else { &step.before })?;
            all.push(Deed::of(&step.path.path, None, None, is_gone, size).details());
        }
        let now = self.moment();
        for details in all {
            let room = self.room_of_operator(&trusted, &details.tool)?;
            let mut call = CallFacts::new(self, who, trusted.clone(), Details { room, ..details })?;
            call.ask_extensions(self).await;
            let around = self.ledger.look(|world| Around::call(world, &call, &now, world.now_ms)).without_leave();
            if let Verdict::Deny { refusal, .. } = call.judge(&around).verdict {
                return Err(refusal.into());
            }
        }
        Ok(())
    }

    /// The room that the operator's own call of this tool has.
    fn room_of_operator(&self, trusted: &Trusted, tool: &str) -> Result<Option<UsedRoom>, Stop> {
        let manifest = self.tools.find(tool).ok().and_then(|tool| tool.manifest().template.clone());
        Ok(Some(judge::used(self.templates(Some(trusted))?.of_tool(tool, manifest.as_deref())?)))
    }
}

/// The way back as a whole: all its paths, and the bytes that are written back.
fn whole(kernel: &Kernel, plan: &Plan) -> Result<Details, Fault> {
    let paths: Vec<OwnedPath> = plan.steps.iter().map(|step| OwnedPath::Inside(step.path.path.clone())).collect();
    let mut size: u64 = 0;
    for step in &plan.steps {
        size = size.saturating_add(bytes(kernel, &step.before)?);
    }
    let input = json!({ "undo": plan.steps.iter().map(|step| &step.path.path).collect::<Vec<_>>() });
    Ok(Details { paths, size: Some(size), ..Details::of(super::APPLY, input) })
}

fn bytes(kernel: &Kernel, state: &State) -> Result<u64, Fault> {
    Ok(match state {
        State::Absent | State::Folder => 0,
        State::Link { target } => target.len() as u64,
        State::File { .. } => state.bytes(kernel)?.len() as u64,
    })
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
