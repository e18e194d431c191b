//! What becomes of a task's changes at its end: they are kept as blobs, whatever end it was, until somebody drops them.
//!
//! **Invariant.** A workspace is closed, and its folder removed, only after what was written in it is on record as kept; a boot finishes
//! what a crash interrupted. Nothing is kept of questions, replays and commands whose changes were to be dropped. `workspace::keep` says
//! what is kept of a path.

use crate::continue_task::withdrawal;
use crate::file_thread::on_own_thread;
use crate::{Kernel, merge};
use room::RoomContent;
use std::collections::BTreeSet;
use std::sync::Arc;
use workspace::{FileTree, KeepList, KeptChanges, room_fault};
use world::event::{TaskCancelled, WorkDropped, WorkKept};
use world::{Code, Event, Fault, FaultKind, Mode, Pid, Refusal, Remedy, Stop, Task, TaskId, TaskState};

/// A task's kept changes, and the blob that lists them.
pub(crate) struct KeptList {
    pub blob: String,
    pub changes: KeptChanges,
}

impl KeptList {
    /// Stores the list.
    pub fn store(kernel: &Kernel, changes: KeptChanges) -> Result<KeptList, Fault> {
        Ok(KeptList { blob: kernel.ledger.keep(&changes.to_bytes()?)?, changes })
    }

    pub fn event(&self, pid: Pid, task: TaskId) -> Event {
        let (files, bytes, left) = (self.changes.files(), self.changes.bytes(), self.changes.lost().count() as u64);
        WorkKept { pid, task: Some(task), blob: self.blob.clone(), files, bytes, left }.into()
    }
}

impl Kernel {
    /// Ends a task's workspace: its changes are kept, its room closed and its folder removed. What can't be kept stays where it is, for the
    /// next boot.
    pub(crate) async fn close_workspace(&self, pid: Pid, id: TaskId) -> Result<(), Fault> {
        let closing = self.workspaces.closing(id);
        let _alone = closing.lock().await;
        match self.keep_work(id).await {
            Ok(()) => self.remove_workspace(pid, id).await,
            Err(stop) => self.leave_workspace(pid, id, &stop),
        }
    }

    /// The same for a task that was cancelled: comes back when nothing of its room is left.
    pub(crate) async fn end_workspace(&self, pid: Pid, id: TaskId) -> Result<(), Fault> {
        let closing = self.workspaces.closing(id);
        let _alone = closing.lock().await;
        if let Some(opened) = self.workspaces.find(id) {
            opened.room.end_jobs().await.map_err(room_fault)?;
        }
        let kept = self.keep_work(id).await;
        self.workspaces.end_room(id).await?;
        match kept {
            Ok(()) => self.remove_workspace(pid, id).await,
            Err(stop) => self.leave_workspace(pid, id, &stop),
        }
    }

    fn leave_workspace(&self, pid: Pid, id: TaskId, stop: &Stop) -> Result<(), Fault> {
        self.workspaces.forget(id);
        self.models.close_cassettes(pid, id);
        if !self.instance.stopping() {
            world::log!("skep: what {id} wrote stays in its folder, because it cannot be kept yet: {stop}");
        }
        Ok(())
    }

    /// Records what a task changed, if anything is to be kept of it.
    async fn keep_work(&self, id: TaskId) -> Result<(), Stop> {
        let task = self.ledger.task(id)?;
        if task.workspace.is_none() || task.discard || task.replays.is_some() || task.mode == Mode::Ask {
            return Ok(());
        }
        let _keeps = self.blobs.hold().await;
        self.instance.fault_at("keep", 0);
        let (pid, had) = (task.pid, task.kept.is_some());
        let kept = on_own_thread(self, |kernel| async move { kept(&kernel, &task).await }).await?;
        let event: Event = match kept {
            Some(kept) => kept.event(pid, id),
            None if had => {
                let reason = "nothing of it differs from the project any more".to_owned();
                WorkDropped { pid, task: Some(id), by: "kernel".into(), reason }.into()
            }
            None => return Ok(()),
        };
        self.ledger.record(event).await?;
        self.instance.fault_at("keep", 1);
        Ok(())
    }

    /// Finishes the end of tasks that the last kernel left in the middle of it.
    pub(crate) async fn close_left(self: Arc<Self>) {
        let is_left = |task: &&Task| task.state.at_rest() && task.workspace.is_some();
        let left: Vec<(Pid, TaskId)> =
            self.ledger.look(|world| world.tasks.values().filter(is_left).map(|task| (task.pid, task.id)).collect());
        for (pid, id) in left {
            if let Err(fault) = self.close_workspace(pid, id).await
                && !self.instance.stopping()
            {
                world::log!("skep: the workspace of {id} is not closed yet: {fault}");
            }
        }
    }

    /// A task as it is once its end is finished: what it changed is kept then.
    pub(crate) async fn settled_work(&self, id: TaskId) -> Result<Task, Stop> {
        let task = self.ledger.task(id)?;
        if !task.state.at_rest() || task.workspace.is_none() {
            return Ok(task);
        }
        self.close_workspace(task.pid, id).await?;
        self.ledger.task(id)
    }

    /// What is kept of a task.
    pub(crate) fn kept_changes(&self, task: &Task) -> Result<Option<KeptChanges>, Stop> {
        let Some(kept) = &task.kept else { return Ok(None) };
        match self.ledger.blob_if_kept(&kept.blob)? {
            Some(bytes) => Ok(Some(KeptChanges::parse(&bytes)?)),
            None => Err(Refusal::new(Code::NotFound, format!("what {} changed is kept no longer", task.id)).into()),
        }
    }

    /// Destroys what is kept of a task. A task that waits to be retried ends with it.
    pub async fn drop_work(&self, id: TaskId, by: &str) -> Result<(), Stop> {
        let task = self.ledger.task(id)?;
        if !task.state.at_rest() {
            return Err(Refusal::new(Code::WrongState, format!("{id} is {}, and only ended work can be dropped", task.state.as_str()))
                .remedy(Remedy::CancelTask { task: Some(id) })
                .into());
        }
        let closing = self.workspaces.closing(id);
        let _alone = closing.lock().await;
        let pending = self.ledger.commit(|world, _| {
            let Some(task) = world.tasks.get(&id).filter(|task| task.state.at_rest()) else {
                return (Vec::new(), Err(Refusal::new(Code::WrongState, format!("somebody goes on with {id}"))));
            };
            if task.kept.is_none() && task.workspace.is_none() {
                let nothing = Refusal::new(Code::NotFound, format!("nothing of {id} is kept"));
                return (Vec::new(), Err(nothing.hint("there is nothing to drop").remedy(Remedy::ShowTask { task: id })));
            }
            let (pid, task_id) = (task.pid, Some(id));
            let dropped = || WorkDropped { pid, task: task_id, by: by.to_owned(), reason: "dropped".into() }.into();
            let mut events: Vec<Event> = withdrawal(world, task, by, merge::DROPPED).into_iter().collect();
            events.extend(task.kept.iter().map(|_| dropped()));
            if task.state == TaskState::Stopped {
                events.push(TaskCancelled { pid, task: task_id, by: by.to_owned() }.into());
            }
            (events, Ok(()))
        })?;
        pending.durable().await??;
        // What could not be kept before goes too.
        self.remove_workspace(task.pid, id).await?;
        Ok(())
    }
}

/// What a task changed, kept as blobs; `None` where nothing differs from the project.
pub(crate) async fn kept(kernel: &Kernel, task: &Task) -> Result<Option<KeptList>, Stop> {
    let opened = kernel.workspace_of(task.id).await?;
    // Nothing runs in it any more, and git is to say what it ignores.
    opened.room.resume();
    let mut list = KeepList::of(&opened.room).await?;
    list.without(&merged(kernel, task)?);
    if list.is_empty() {
        return Ok(None);
    }
    let throwaway = kernel.throwaways.open(task.zone, &opened.project, RoomContent::Repository).await?;
    let bases = match merge::bases(kernel, task, &opened, &throwaway, &list.paths()).await {
        Ok(bases) => Some(bases),
        Err(Stop::Failed(fault)) if matches!(fault.kind, FaultKind::Stopping | FaultKind::DiskFull) => return Err(fault.into()),
        // A repository that git cannot read must not cost anybody their work.
        Err(stop) => {
            world::log!("skep: what {} started from is not known, so a person decides on each path: {stop}", task.id);
            None
        }
    };
    let before = kernel.kept_changes(task)?.map(|before| before.began);
    let began = match before {
        Some(began) => began,
        None => kernel.ledger.task(task.id)?.workspace.and_then(|workspace| workspace.head),
    };
    let sight = kernel.gate.sight(kernel.gate.owner(task.id)?)?;
    let masked = |path: &str| sight.masks(path).map(|by| by.to_string());
    let keeping = kernel.ledger.keeping();
    let (upper, bytes_max) = (FileTree::at(opened.work.join("upper"))?, kernel.instance.tuning.kept_bytes_max);
    let changes = list.keep(&upper, bases.as_ref(), began, &masked, bytes_max, &|bytes| keeping.keep(bytes))?;
    keeping.done()?;
    drop(bases);
    throwaway.close().await?;
    // Folders alone are no work, but for whoever goes on where a session stopped.
    let is_resumed = task.session.is_some() && task.state != TaskState::Done;
    if changes.files() == 0 && changes.lost().next().is_none() && (!is_resumed || changes.is_empty()) {
        return Ok(None);
    }
    Ok(Some(KeptList::store(kernel, changes)?))
}

/// The paths of a task that its merge put into the project.
fn merged(kernel: &Kernel, task: &Task) -> Result<BTreeSet<String>, Stop> {
    if kernel.ledger.merge_of(task).is_none_or(|merge| !merge.is_in_tree()) {
        return Ok(BTreeSet::new());
    }
    let went_in = kernel.ledger.merged(task.id)?.into_iter().filter(|path| path.refused.is_none());
    Ok(went_in.flat_map(|path| std::iter::once(path.path).chain(path.from)).collect())
}
